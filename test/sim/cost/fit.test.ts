import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InputError } from "../../../core/errors.ts";
import { seededRandom } from "../../../core/random.ts";
import type { StepPlan } from "../../../core/replica/step.ts";
import { measure, noLoad } from "../../../core/serving/step-load.ts";
import { restoreCalls } from "../../../engine/backends.ts";
import { CpuStepLoads } from "../../../engine/cpu/step-loads.ts";
import { amountsOf, coefficientsOf, type Fit, fitCost, type Measurement } from "../../../sim/cost/fit.ts";
import { Fitted, fittedFrom, fittedText } from "../../../sim/cost/fitted.ts";
import { nonNegative } from "../../../sim/cost/least-squares.ts";

const known = {
  ...{
    step: 3_000_000_000,
    batchStep: 900_000_000,
    prefillStep: 800_000_000,
    prefillTokens: 90_000_000,
    decodeTokens: 400_000_000,
  },
  ...{ prefillContextTokens: 4_000_000, decodeContextTokens: 3_500_000, prefillPairs: 40_000 },
};

/** Steps of many kinds with durations by the coefficients `known`, times noise around 1. */
function synthetic(count: number, noise: number, seed: number): Measurement[] {
  const { below, unit } = seededRandom(seed);
  const cost = new Fitted({ picoseconds: known });
  return Array.from({ length: count }, () => {
    const [prefills, decodes] = [below(3), below(16)];
    const [tokens, cached] = [1 + below(500), below(800)];
    const load = {
      ...noLoad(),
      ...{
        sequences: prefills + decodes,
        logits: prefills + decodes,
        prefillSequences: prefills,
        decodeTokens: decodes,
      },
      ...{ prefillTokens: prefills * tokens, prefillContextTokens: prefills * (tokens + cached) },
      prefillPairs: prefills * (tokens * cached + (tokens * (tokens + 1)) / 2),
      decodeContextTokens: decodes * below(1000),
    };
    return { amounts: amountsOf(load), ns: cost.stepNs(load) * (1 + noise * (2 * unit() - 1)) };
  });
}

const named = (fit: Fit) => Object.fromEntries(fit.coefficients.map((each) => [each.name, each]));

test("without noise the known coefficients are found", () => {
  const found = named(fitCost(synthetic(200, 0, 1), "steps"));
  for (const [name, picoseconds] of Object.entries(known)) {
    // A step is rounded to whole nanoseconds.
    expect(found[name].picoseconds / picoseconds).toBeCloseTo(1, 4);
    expect(found[name].lowPs).toBeLessThanOrEqual(found[name].picoseconds * 1.0001);
    expect(found[name].highPs).toBeGreaterThanOrEqual(found[name].picoseconds * 0.9999);
  }
});

test("if the division of steps is known, calls and padding have coefficients, and totals have none", () => {
  const calls = new CpuStepLoads({ longestQuery: 256, perCall: 10, perContextToken: 0.01, perScore: 0.0001 });
  const picoseconds = {
    ...{ step: 1_000_000_000, calls: 30_000_000_000, prefillTokens: 1_300_000_000, decodeTokens: 2_300_000_000 },
    ...{ paddedContextTokens: 14_000_000, farContextTokens: 8_000_000, paddedPairs: 600_000 },
  };
  const cost = new Fitted({ calls, picoseconds });
  const { below } = seededRandom(5);
  const steps = Array.from({ length: 300 }, () => {
    const prompt = () => ({ from: below(500), tokens: 2 + below(600), prefill: true, generate: 1 });
    const decode = () => ({ from: below(900), tokens: 1, prefill: false, generate: 1 });
    const items = [...Array.from({ length: below(3) }, prompt), ...Array.from({ length: 1 + below(9) }, decode)];
    const totals = { prefillTokens: 0, decodeTokens: 0 };
    for (const { tokens, prefill } of items) totals[prefill ? "prefillTokens" : "decodeTokens"] += tokens;
    const plan = { items, count: items.length, copies: [], swappedTokens: 0, ...totals } as unknown as StepPlan;
    const load = noLoad();
    measure(load, plan);
    calls.measure(load, plan);
    return { amounts: amountsOf(load), ns: cost.stepNs(load) };
  });
  const found = named(fitCost(steps, "steps", { calls }));
  for (const [name, ps] of Object.entries(picoseconds)) expect(found[name].picoseconds / ps).toBeCloseTo(1, 3);
  expect(found).not.toHaveProperty("decodeContextTokens");
});

test("far context has a coefficient only if a step has at least as much far as near context", () => {
  const step = (farContextTokens: number, noise: number) => {
    const paddedContextTokens = farContextTokens > 0 ? 1024 + farContextTokens : 100;
    return {
      amounts: { step: 1, calls: 1, paddedContextTokens, farContextTokens },
      ns: 1e7 + 10_000 * paddedContextTokens + 5_000 * farContextTokens + noise,
    };
  };
  const calls = new CpuStepLoads({ longestQuery: 256, perCall: 10, perContextToken: 0.01, perScore: 0.0001 });
  const some = Array.from({ length: 40 }, (_, i) => step(0, (i % 5) * 1000));
  const barely = fitCost([...some, step(3, 3e6), step(4, 3e6), step(5, 3e6)], "steps", { calls });
  expect(named(barely)).not.toHaveProperty("farContextTokens");
  const enough = fitCost([...some, step(500, 0), step(1024, 0), step(2000, 0)], "steps", { calls });
  expect(enough.coefficients.map(({ name }) => name)).toContain("farContextTokens");
  expect(named(enough).farContextTokens.picoseconds / 5e6).toBeCloseTo(1, 1);
});

test("with noise the known coefficients are within their intervals about as often as stated", () => {
  let inside = 0;
  let all = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const found = named(fitCost(synthetic(400, 0.2, seed), "steps", { seed }));
    for (const [name, picoseconds] of Object.entries(known)) {
      const { lowPs, highPs } = found[name];
      inside += lowPs <= picoseconds && picoseconds <= highPs ? 1 : 0;
      all++;
      expect(highPs).toBeGreaterThan(lowPs);
    }
  }
  expect(inside / all).toBeGreaterThan(0.85);
});

test("steps with pauses of the machine do not change the coefficients", () => {
  const steps = synthetic(400, 0.05, 1);
  const paused = steps.map((step, i) => (i % 20 === 0 ? { ...step, ns: step.ns * 5 } : step));
  const [before, after] = [steps, paused].map((rows) => fitCost(rows, "steps").fittedNs);
  const ratios = before.map((ns, i) => after[i] / ns);
  expect(Math.max(...ratios)).toBeLessThan(1.05);
  expect(Math.min(...ratios)).toBeGreaterThan(0.97);
});

test("the total predicted duration is the measured one, also with skewed noise", () => {
  const steps = synthetic(400, 0.05, 1).map((step, i) => (i % 8 === 0 ? { ...step, ns: step.ns * 1.3 } : step));
  const total = (values: readonly number[]) => values.reduce((sum, ns) => sum + ns, 0);
  const fitted = total([...fitCost(steps, "steps").fittedNs]);
  expect(fitted / total(steps.map(({ ns }) => ns))).toBeCloseTo(1, 9);
});

test("the same steps and seed give the same file, which a simulation can read", () => {
  const fitted = () => fitCost(synthetic(100, 0.1, 3), "steps", { seed: 7 });
  const text = fittedText({ about: "synthetic", picoseconds: coefficientsOf(fitted()) });
  expect(fittedText({ about: "synthetic", picoseconds: coefficientsOf(fitted()) })).toBe(text);
  const cost = new Fitted(fittedFrom(JSON.parse(text), "cost.json", restoreCalls));
  expect(cost.stepNs({ ...noLoad(), decodeTokens: 1, sequences: 1, logits: 1 })).toBeGreaterThan(2_000_000);
});

test("measurements may be of several steps at once", () => {
  const steps = synthetic(300, 0, 5);
  const pairs = steps.slice(0, 150).map((step, i): Measurement => {
    const other = steps[150 + i];
    const names = Object.keys(step.amounts) as (keyof Measurement["amounts"])[];
    const amounts = Object.fromEntries(names.map((name) => [name, step.amounts[name]! + other.amounts[name]!]));
    return { amounts, ns: step.ns + other.ns };
  });
  expect(named(fitCost(pairs, "intervals"))["step"].picoseconds / known.step).toBeCloseTo(1, 4);
});

test("non-negative least squares satisfy the Karush–Kuhn–Tucker conditions for any columns", () => {
  const cell = fc.integer({ min: -9, max: 9 });
  const rows = fc.array(fc.tuple(cell, cell, cell, cell), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(rows, (all) => {
      const columns = [0, 1, 2];
      const sum = (of: (row: readonly number[]) => number) => all.reduce((total, row) => total + of(row), 0);
      const products = columns.map((i) => Float64Array.from(columns, (j) => sum((row) => row[i] * row[j])));
      const targets = Float64Array.from(columns, (i) => sum((row) => row[i] * row[3]));
      const found = nonNegative(products, targets);
      for (const i of columns) {
        const slope = targets[i] - products[i].reduce((total, value, j) => total + value * found[j], 0);
        expect(found[i]).toBeGreaterThanOrEqual(0);
        expect(slope).toBeLessThan(1e-6);
        if (found[i] > 1e-9) expect(Math.abs(slope)).toBeLessThan(1e-6);
      }
    }),
  );
});

describe("invalid input is refused in one line", () => {
  const steps = synthetic(100, 0, 1);
  test.each<[string, Measurement[], string]>([
    ["nothing", [], "run: 0 steps are too few for 0 coefficients, expected 3 at least"],
    ["too few", steps.slice(0, 5), "run: 5 steps are too few for 10 coefficients, expected 30 at least"],
    [
      "always the same",
      Array(50).fill(steps[0]),
      "run: all 50 steps are equal, so that no coefficient can be identified",
    ],
    ["no time", [...steps, { ...steps[0], ns: 0 }], "run: step 100 takes 0 ns, expected more than 0"],
    ["no number", [...steps, { ...steps[0], ns: Number.NaN }], "run: step 100 takes NaN ns, expected more than 0"],
    [
      "a negative amount",
      [{ ns: 1, amounts: { step: 1, prefillTokens: -1 } }, ...steps],
      "run: prefillTokens of step 0 is -1, expected a number from 0",
    ],
  ])("%s", (_, measurements, message) => {
    expect(() => fitCost(measurements, "run")).toThrow(new InputError(message));
  });
});
