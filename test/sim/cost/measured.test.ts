import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InputError } from "../../../core/errors.ts";
import { noLoad } from "../../../core/serving/step-load.ts";
import { StepTable } from "../../../core/serving/step-table.ts";
import { restoreCalls } from "../../../engine/backends.ts";
import { CpuStepLoads } from "../../../engine/cpu/step-loads.ts";
import { costFromText } from "../../../sim/cost/cost-file.ts";
import type { CostModel } from "../../../sim/cost/cost-model.ts";
import { fittedText } from "../../../sim/cost/fitted.ts";
import { recordedText } from "../../../sim/cost/recorded.ts";
import { costs, everythingOf, linearCost, simulated, workloads } from "../../support/simulated.ts";

describe("fitted coefficients", () => {
  const costOf = (file: object) => costFromText(JSON.stringify(file), "cost.json", restoreCalls)(0);

  test("the duration of a step is the sum over its quantities, in whole nanoseconds", () => {
    const cost = costOf({
      schema: "cost/1",
      about: "this machine",
      picoseconds: { step: 5_000_000, prefillStep: 1_000_000, prefillTokens: 20_400, sequences: 300_000 },
    });
    expect(cost.name).toBe("fitted");
    expect(cost.stepNs({ ...noLoad(), sequences: 2, decodeTokens: 2 })).toBe(5600);
    // 5,000 + 1,000 + 7 · 20.4 + 300 = 6,442.8
    expect(cost.stepNs({ ...noLoad(), sequences: 1, prefillTokens: 7 })).toBe(6443);
  });

  test("a step takes at least a nanosecond", () => {
    expect(costOf({ schema: "cost/1", picoseconds: { copiedBlocks: 1 } }).stepNs(noLoad())).toBe(1);
  });

  test("a step longer than 2^53 ns is an error of one line", () => {
    const endless = costOf({ schema: "cost/1", picoseconds: { prefillTokens: Number.MAX_SAFE_INTEGER } });
    const run = (cost: CostModel) => () => simulated([{ prompt: 3 }], { cost });
    expect(run(endless)).toThrow(new InputError("a step takes 27021597764222972 ps, more than 2^53 (2.5 hours)"));
    expect(run(linearCost({ fixed: 1e303 }))).toThrow(
      new InputError("cost model linear: a step takes 1e+303 ns, more than 2^53 ns (104 days)"),
    );
  });

  test("every part of a load has a coefficient, and a file that was written is read as it was", () => {
    const names = Object.keys(noLoad()).filter((name) => name !== "longestDecodeTokens");
    const calls = new CpuStepLoads({ longestQuery: 256, perCall: 10, perContextToken: 0.5, perScore: 0 });
    const loads = fc.record(Object.fromEntries(names.map((name) => [name, fc.nat(1000)]))) as fc.Arbitrary<
      ReturnType<typeof noLoad>
    >;
    const coefficients = fc.record(
      Object.fromEntries(["step", "prefillStep", ...names].map((name) => [name, fc.nat(1e6)])),
    );
    fc.assert(
      fc.property(loads, coefficients, (load, picoseconds) => {
        fc.pre(Object.values(picoseconds).some((ps) => ps > 0));
        const cost = costFromText(fittedText({ windowTokens: 7, calls, picoseconds }), "cost.json", restoreCalls)(3);
        const { step, prefillStep, ...each } = picoseconds;
        const ps = names.reduce((sum, name) => sum + each[name] * load[name as keyof typeof load], step);
        expect(cost).toMatchObject({ windowTokens: 7, calls: { rules: calls.rules } });
        expect(cost.stepNs(load)).toBe(
          Math.max(1, Math.round((ps + (load.prefillTokens > 0 ? prefillStep : 0)) / 1000)),
        );
      }),
    );
  });

  test.each([
    ["{", /^cost.json: is not JSON \(/],
    ["7", /^cost.json: schema is undefined, expected "cost\/1" or "steps\/1"$/],
    ['{"schema":"cost/2"}', /^cost.json: schema is "cost\/2", expected/],
    ['{"schema":"cost/1"}', /^cost.json: picoseconds is undefined, expected coefficients by name$/],
    ['{"schema":"cost/1","picoseconds":{"token":1}}', /^cost.json: no coefficient "token": expected one of step, /],
    ['{"schema":"cost/1","picoseconds":{"logit":1}}', /^cost.json: no coefficient "logit": did you mean "logits"\?$/],
    ['{"schema":"cost/1","picoseconds":{"step":-1}}', /picoseconds.step is -1, expected a whole number from 0$/],
    ['{"schema":"cost/1","picoseconds":{"step":0.5}}', /picoseconds.step is 0.5, expected a whole number from 0$/],
    ['{"schema":"cost/1","picoseconds":{}}', /every coefficient is 0, so that no step takes any time$/],
    ['{"schema":"cost/1","picoseconds":{"step":1},"unit":"ns"}', /unknown field "unit"$/],
    ['{"schema":"cost/1","picoseconds":{"step":1},"windowTokens":0}', /windowTokens is 0, expected .* from 1$/],
    ['{"schema":"cost/1","picoseconds":{"step":1},"about":1}', /about is not a string$/],
    ['{"schema":"cost/1","picoseconds":{"calls":1}}', /picoseconds.calls needs calls, the engine's division /],
    ['{"schema":"cost/1","picoseconds":{"step":1},"calls":7}', /calls.longestQuery is undefined, expected a whole /],
    [
      '{"schema":"cost/1","picoseconds":{"step":1},"calls":{"longestQuery":256,"perCall":-1}}',
      /calls.perCall is -1, expected a number from 0$/,
    ],
  ])("%s is an error of one line", (text, message) => {
    expect(() => costFromText(text, "cost.json", restoreCalls)).toThrow(message);
  });
});

describe("a recorded run", () => {
  const config = { scheduler: "fcfs-chunked", schedulerOptions: { "max-num-batched-tokens": 16, "max-num-seqs": 4 } };

  test("with the same requests every event has its recorded time", () => {
    fc.assert(
      fc.property(workloads(), costs, (rows, coefficients) => {
        const steps = new StepTable();
        const run = simulated(rows, { ...config, cost: linearCost(coefficients), observers: [steps] });
        const again = simulated(rows, {
          ...config,
          cost: costFromText(recordedText([steps]), "steps.json", restoreCalls),
        });
        expect(everythingOf(again)).toEqual(everythingOf(run));
      }),
      { numRuns: 30 },
    );
  });

  const recorded = (...tokens: [prefill: number, decode: number][]) =>
    recordedText([
      {
        durationNs: tokens.map(() => 10),
        prefillTokens: tokens.map(([prefill]) => prefill),
        decodeTokens: tokens.map(([, decode]) => decode),
      },
    ]);

  test("the first step that differs from the recorded one is an error", () => {
    const replayed = (text: string) => () =>
      simulated([{ prompt: 5, output: 3 }], { ...config, cost: costFromText(text, "steps.json", restoreCalls) });
    expect(replayed(recorded([5, 0], [0, 1], [0, 1]))).not.toThrow();
    expect(replayed(recorded([5, 0], [0, 2], [0, 1]))).toThrow(
      "steps.json: replica 0: step 1 computes 0 prefill tokens and 1 decode tokens, the recorded one 0 and 2",
    );
    expect(replayed(recorded([5, 0], [0, 1]))).toThrow("steps.json: replica 0: step 2 is past the 2 recorded steps");
  });

  test.each([
    ['{"schema":"steps/1"}', /^steps.json: replicas is undefined, expected step columns for each replica$/],
    ['{"schema":"steps/1","replicas":[1]}', /^steps.json: replica 0 has no columns$/],
    ['{"schema":"steps/1","replicas":[{"durationNs":[]}]}', /^steps.json: replica 0: prefillTokens is not a list$/],
    [
      '{"schema":"steps/1","replicas":[{"durationNs":[0],"prefillTokens":[1],"decodeTokens":[0]}]}',
      /^steps.json: replica 0: durationNs of step 0 is 0, expected a whole number from 1$/,
    ],
    [
      '{"schema":"steps/1","replicas":[{"durationNs":[1,2],"prefillTokens":[1],"decodeTokens":[0]}]}',
      /^steps.json: replica 0: the columns differ in length: 2, 1, 1$/,
    ],
  ])("%s is an error of one line", (text, message) => {
    expect(() => costFromText(text, "steps.json", restoreCalls)).toThrow(message);
  });

  test("a replica that was not recorded is an error", () => {
    expect(() => costFromText(recorded([1, 0]), "steps.json", restoreCalls)(1)).toThrow(
      "steps.json: has no replica 1, only 1",
    );
  });
});
