import { describe, expect, test } from "vitest";
import type { Case, Operation } from "../../conformance/case.ts";
import { families } from "../../conformance/families/index.ts";
import { runCase } from "../../conformance/run.ts";
import { casesIn, givenFolder, ownFolder } from "./cases.ts";

const own = casesIn(ownFolder);
const given = givenFolder === undefined ? [] : casesIn(givenFolder);
const known = new Set(families.map(({ name }) => name));

describe("worked cases pass", () => {
  test.each(own.map((worked) => [worked.id, worked] as const))("%s", (_, worked) => {
    expect(runCase(worked)).toEqual({ verdict: "passed" });
  });

  // Empty without the cases of the real systems; then the next test does not run.
  const ofFamilies = given.filter(({ family }) => known.has(family));
  test.runIf(ofFamilies.length > 0)("cases of the real systems pass, for every known family", () => {
    const verdicts = ofFamilies.map((worked) => ({ id: worked.id, ...runCase(worked) }));
    expect(verdicts.filter(({ verdict }) => verdict !== "passed")).toEqual([]);
  });

  test("every family has a worked case", () => {
    expect([...known].filter((name) => !own.some(({ family }) => family === name))).toEqual([]);
  });
});

/** Every case with one expected field changed. */
function* planted(cases: readonly Case[]): Generator<{ worked: Case; at: number; field: string; was: unknown }> {
  for (const worked of cases) {
    for (const [i, { expect }] of worked.ops.entries()) {
      for (const [field, was] of Object.entries(expect)) {
        const changed = { ...worked.ops[i], expect: { ...expect, [field]: other(was) } };
        yield { worked: { ...worked, ops: worked.ops.with(i, changed) }, at: i + 1, field, was };
      }
    }
  }
}

function other(value: unknown): unknown {
  if (typeof value === "number") return value + 1;
  if (typeof value === "boolean") return !value;
  if (typeof value === "string") return `${value}?`;
  if (Array.isArray(value)) return value.length > 1 ? value.slice(1) : [...value, 77];
  if (value === null) return "something";
  return Object.fromEntries(Object.entries(value as object).map(([key, each]) => [key, other(each)]));
}

test("a case with one changed expectation stops at that operation: failed, or skipped if the value is invalid", () => {
  let failed = 0;
  for (const { worked, at, field, was } of planted([...own, ...given.filter(({ family }) => known.has(family))])) {
    const { verdict, op } = runCase(worked);
    const where = `${worked.id}, op ${at}, ${field}`;
    expect(verdict, where).not.toBe("passed");
    expect(op, where).toBe(at);
    if (verdict === "failed") failed++;
    // An unknown block or handle is not a valid value.
    else expect(was === null || typeof was === "string" || field === "block", where).toBe(true);
  }
  expect(failed).toBeGreaterThan(50);
});

test("unsupported input makes a case skipped, not passed", () => {
  for (const worked of own) {
    const last = worked.ops.length;
    const withLast = (change: Partial<Operation>) => ({
      ...worked,
      ops: worked.ops.with(-1, { ...worked.ops[last - 1], ...change }),
    });
    const { name, inputs, expect: expected } = worked.ops[last - 1];
    const family = families.find((each) => each.name === worked.family)!;
    const known = (names: readonly string[]) =>
      names.length === 0 ? "there is none" : `known: ${names.toSorted().join(", ")}`;
    const spec = family.ops[name];
    expect(runCase({ ...worked, family: "no-such" })).toEqual({
      verdict: "skipped",
      why: `unknown family "no-such"; known: ${families
        .map(({ name: each }) => each)
        .sort()
        .join(", ")}`,
    });
    expect(runCase({ ...worked, config: { ...worked.config, surprise: 1 } })).toEqual({
      verdict: "skipped",
      why: `unknown setting "surprise" of ${worked.family}; ${known(family.configKeys)}`,
    });
    expect(runCase(withLast({ name: "constructor" }))).toEqual({
      verdict: "skipped",
      why: `op ${last}: unknown operation "constructor" of ${worked.family}; ${known(Object.keys(family.ops))}`,
      op: last,
    });
    expect(runCase(withLast({ inputs: { ...inputs, extra: 1 } }))).toEqual({
      verdict: "skipped",
      why: `op ${last}: unknown input "extra" of ${name}; ${known(spec.inputs)}`,
      op: last,
    });
    expect(runCase(withLast({ expect: { ...expected, extra: 1 } }))).toEqual({
      verdict: "skipped",
      why: `op ${last}: unknown expectation "extra" of ${name}; ${known(Object.keys(spec.expects))}`,
      op: last,
    });
  }
});

test("an input of the wrong type causes no internal error: a case that does not pass states the reason", () => {
  const strange = [null, -1, 1.5, "x", true, [], {}, [[]], [{}], { range: [3, 1] }, { range: [0, 1e12] }, 1e300];
  for (const worked of own) {
    const changed = (at: number, op: Operation): Case => ({ ...worked, ops: worked.ops.with(at, op) });
    for (const value of strange) {
      for (const [i, op] of worked.ops.entries()) {
        for (const input of Object.keys(op.inputs)) {
          const { verdict, why } = runCase(changed(i, { ...op, inputs: { ...op.inputs, [input]: value } }));
          expect(verdict === "passed" || why !== undefined).toBe(true);
        }
      }
      for (const key of Object.keys(worked.config)) runCase({ ...worked, config: { ...worked.config, [key]: value } });
    }
  }
});
