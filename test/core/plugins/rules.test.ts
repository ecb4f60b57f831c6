import { expect, test } from "vitest";
import { nearest } from "../../../core/nearest.ts";
import { checkSupport, parseRule, resolveRules, ruleNames, ruleTable } from "../../../core/plugins/rules.ts";
import { seededRandom } from "../../../core/random.ts";
import { rulesFor } from "../../../core/replica/compose.ts";
import { evictionRegistry, indexRegistry } from "../../../policies/registry.ts";

test("every rule has its first value, or 0, or no limit, by default", () => {
  const rules: Record<string, unknown> = resolveRules();
  expect(Object.keys(rules)).toEqual([...ruleNames]);
  for (const name of ruleNames) {
    const { values } = ruleTable[name];
    expect(rules[name]).toBe(values === "number" ? 0 : values === "limit" ? "unlimited" : values[0]);
  }
});

test("of several layers the last one with a rule determines its value", () => {
  const rules = resolveRules({ publish: "step", reserve: "worst-case" }, { publish: "finish" });
  expect(rules).toMatchObject({ publish: "finish", reserve: "worst-case", duplicates: "adopt" });
});

test("a rule is parsed as written, or refused with the valid values", () => {
  expect(parseRule("publish", "chunk")).toBe("chunk");
  expect(parseRule("drop-blocks", "3")).toBe(3);
  expect(() => parseRule("publish", "never")).toThrow(
    'rule publish is "never", expected one of allocation, step, chunk, finish',
  );
  for (const value of ["-1", "1.5", "x", "", "1e3", "99999999999999999999"])
    expect(() => parseRule("drop-blocks", value)).toThrow(
      `rule drop-blocks is "${value}", expected a whole number from 0`,
    );
  expect(() => parseRule("publsh", "step")).toThrow(/unknown rule "publsh".*publish/);
});

test("an index refuses a rule that it does not support, with the supported values", () => {
  expect(() => rulesFor(indexRegistry.get("hash-table"), { victims: "leaf" })).toThrow(
    "index hash-table does not support rule victims=leaf; it supports victims=any",
  );
  expect(() => checkSupport(resolveRules({ partial: "copy" }), "it", { partial: ["none", "copy"] })).not.toThrow();
});

test("the nearest name is found through a letter dropped, changed or swapped, and no further", () => {
  const names = ["fifo", "lru", "random", "belady"];
  expect(["fifi", "lur", "randm", "Belady", "blaedy"].map((name) => nearest(name, names))).toEqual([
    "fifo",
    "lru",
    "random",
    "belady",
    "belady",
  ]);
  expect(nearest("arc", names)).toBeUndefined();
});

test("an unknown plug-in is refused with the nearest name, or all of them", () => {
  expect(() => evictionRegistry.get("lur")).toThrow('unknown eviction policy "lur": did you mean "lru"?');
  expect(() => evictionRegistry.get("nonsense")).toThrow(/^unknown eviction policy "nonsense".*belady.*lru/);
});

test("a seed gives the same numbers everywhere, another seed others", () => {
  const drawn = (seed: number) => {
    const random = seededRandom(seed);
    return Array.from({ length: 6 }, () => random.below(1000));
  };
  expect(drawn(1)).toEqual(drawn(1));
  expect(drawn(2)).not.toEqual(drawn(1));
  // Written down once: the same on every machine and in every version.
  expect(drawn(1)).toEqual([646, 328, 81, 997, 890, 829]);
  const random = seededRandom(7);
  for (let i = 0; i < 1000; i++) {
    expect([0, 1, 2]).toContain(random.below(3));
    const unit = random.unit();
    expect(unit >= 0 && unit < 1).toBe(true);
  }
});
