import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readTrace, rowOf, type Trace } from "../../../core/trace/trace.ts";
import { type Generator, generated, type Parameter, type Values } from "../../../traces/generators/generator.ts";
import { generatorNamed, generators } from "../../../traces/generators/registry.ts";
import { failureOf } from "../files.ts";

/** Values of all parameters, small ones, so that contexts reach their limits and documents repeat. */
function smallValues({ parameters }: Generator): fc.Arbitrary<Values> {
  const arbitraryOf = ({ least, most, default: usual, integer }: Parameter) => {
    const max = Math.min(most, Math.max(least, Math.min(usual, 40)));
    return integer ? fc.integer({ min: least, max }) : fc.double({ min: least, max, noNaN: true });
  };
  const names = Object.entries<Parameter>(parameters).filter(([name]) => name !== "requests" && name !== "seed");
  return fc.record({
    ...Object.fromEntries(names.map(([name, parameter]) => [name, arbitraryOf(parameter)])),
    requests: fc.integer({ min: 1, max: 200 }),
    seed: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  });
}

const generate = (generator: Generator, values: Partial<Values> = {}) => readTrace(generated(generator, values));

function expectValid(trace: Trace, values: Values): void {
  expect(trace.requestCount).toBe(values["requests"]);
  expect(trace.unitTokens).toBe(values["unitTokens"]);
  const before = new Int32Array(trace.distinctKeys).fill(-2);
  let known = 0;
  let sessions = 0;
  for (let r = 0; r < trace.requestCount; r++) {
    const row = rowOf(trace, r);
    const { keys, session = 0, parent = -1, markedTokens = 0, maxOutputTokens = 0 } = row;
    const faults = {
      length: row.inputTokens < 1 || keys.length !== Math.ceil(row.inputTokens / trace.unitTokens),
      output: row.outputTokens < 1 || maxOutputTokens < row.outputTokens,
      arrival: !Number.isInteger(row.arrivalNs) || row.arrivalNs < (r === 0 ? 0 : trace.arrivalNs[r - 1]),
      markedTokens: markedTokens > row.inputTokens,
      session: session > sessions + 1,
      parent: parent >= r || (parent >= 0 && row.arrivalNs - row.thinkNs! < trace.arrivalNs[parent]),
      ids: false,
    };
    sessions = Math.max(sessions, session);
    for (let i = 0; i < keys.length; i++) {
      const previous = i === 0 ? -1 : keys[i - 1];
      if (keys[i] === known) before[known++] = previous;
      if (before[keys[i]] !== previous) faults.ids = true;
    }
    if (Object.values(faults).includes(true)) expect.fail(`request ${r}: ${JSON.stringify({ faults, row })}`);
  }
  expect(trace.distinctKeys).toBe(known);
}

describe.each(generators.map((generator) => [generator.name, generator] as const))("%s", (_, generator) => {
  const values = smallValues(generator);

  test("a trace is valid for all values: lengths, order, dense ids, one prefix per id, earlier parents", async () => {
    await fc.assert(
      fc.asyncProperty(values, async (small) => expectValid(await generate(generator, small), small)),
      { numRuns: 60 },
    );
  });

  test("the same values give the same trace, and another seed gives another one", async () => {
    await fc.assert(
      fc.asyncProperty(values, async (small) => {
        const trace = await generate(generator, small);
        expect(await generate(generator, small)).toEqual(trace);
      }),
      { numRuns: 10 },
    );
    const [one, other] = [
      await generate(generator, { requests: 100 }),
      await generate(generator, { requests: 100, seed: 2 }),
    ];
    expect(other).not.toEqual(one);
  });

  test("a trace with fewer requests is the beginning of a longer one, over the end of a batch", async () => {
    const [few, many] = [await generate(generator, { requests: 300 }), await generate(generator, { requests: 8500 })];
    for (const r of [0, 1, 150, 299]) expect(rowOf(few, r)).toEqual(rowOf(many, r));
    expectValid(many, { requests: 8500, unitTokens: 16 });
  });

  test("every parameter has a default within its range, and values outside of it are refused", async () => {
    for (const [name, { least, most, default: usual }] of Object.entries<Parameter>(generator.parameters)) {
      expect(usual).toBeGreaterThanOrEqual(least);
      expect(usual).toBeLessThanOrEqual(most);
      for (const value of [least - 1, most + 1, Number.NaN])
        expect(await failureOf(async () => generated(generator, { [name]: value }))).toMatch(
          new RegExp(`^${name} is ${value}, expected a (whole )?number from ${least} to ${most}$`),
        );
    }
  });
});

test("an unknown generator or option is refused with the nearest name", async () => {
  expect(await failureOf(async () => generatorNamed("few-shots"))).toBe(
    'unknown generator "few-shots": did you mean "few-shot"?',
  );
  expect(await failureOf(async () => generated(generatorNamed("rag"), { document: 3 }))).toBe(
    'rag has no option "document": did you mean "documents"?',
  );
});

test("requests that arrive over more than 104 days are refused", async () => {
  expect(await failureOf(() => generate(generatorNamed("rag"), { requests: 20_000, requestsPerS: 0.001 }))).toBe(
    "the requests arrive over more than 104 days (2^53 ns), expected fewer requests or a higher rate",
  );
});
