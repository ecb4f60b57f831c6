import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { StepLoad } from "../../core/serving/step-load.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { CostModel, PipelineStages } from "../../sim/cost/cost-model.ts";
import {
  type Coefficients,
  everythingOf,
  integralOf,
  linearCost,
  type OwnSimulation,
  outcome,
  type Row,
  simulated,
  workloads,
} from "../support/simulated.ts";

/** A pipeline whose stages have linear times. */
function pipelineOf(coefficients: readonly Coefficients[], transferNs = 0): CostModel & { stages: PipelineStages } {
  const models = coefficients.map(linearCost);
  const stages: PipelineStages = {
    count: models.length,
    stageNs: (stage, load) => models[stage].stepNs(load),
    transferNs: () => transferNs,
  };
  return {
    name: "pipeline",
    stages,
    stepNs: (load) => models.reduce((ns, model) => ns + model.stepNs(load), (models.length - 1) * transferNs),
  };
}

const scheduler = "fcfs-chunked";
const schedulerOptions = { "max-num-batched-tokens": 8, "max-num-seqs": 16 };
const timesOf = (simulation: ReturnType<typeof simulated>) => {
  const columns = (["admittedNs", "firstTokenNs", "finishedNs"] as const).map((name) => outcome(simulation, name));
  return columns[0].map((_, id) => columns.map((column) => column[id]));
};

describe("worked examples with two stages, of 10 ns and 20 ns and 1 ns per prompt token each, 5 ns apart", () => {
  const cost = pipelineOf(
    [
      { fixed: 10, prefillTokens: 1 },
      { fixed: 20, prefillTokens: 1 },
    ],
    5,
  );
  const run = (rows: readonly Row[]) => simulated(rows, { cost, scheduler, schedulerOptions, audit: true });

  test("two requests in two batches that overlap", () => {
    const simulation = run([
      { prompt: 8, output: 3 },
      { prompt: 4, output: 2 },
    ]);
    // batch      stage 0     stage 1
    // A, 8 tok   0 … 18      23 … 51
    // B, 4 tok   18 … 32     51 … 75    waits for stage 1
    // A, token   51 … 61     75 … 95
    // B, token   75 … 85     95 … 115   the end of B; A is in the other batch, so that nothing can be planned
    // A, token   95 … 105    115 … 135
    expect(timesOf(simulation)).toEqual([
      [0, 51, 135],
      [0, 75, 115],
    ]);
    const [{ stepCount, busyNs }] = simulation.replicas;
    expect({ stepCount, busyNs }).toEqual({ stepCount: 5, busyNs: 135 });
  });

  test("chunks of one prompt follow each other through the stages", () => {
    // The second chunk is planned at 0, is in stage 0 from 18 to 36, and in stage 1 from 51, when that of the first one ends.
    expect(timesOf(run([{ prompt: 16 }]))).toEqual([[0, 79, 79]]);
  });

  test("a request that arrives while nothing can be planned waits for the end of a batch", () => {
    // At 10, the batch of A is the only one, and an empty plan has been made.
    expect(timesOf(run([{ prompt: 8 }, { at: 10, prompt: 1 }]))).toEqual([
      [0, 51, 51],
      [51, 51 + 11 + 5 + 21, 88],
    ]);
  });
});

const stageCosts = fc.array(
  fc.record({ fixed: fc.integer({ min: 1, max: 50 }), prefillTokens: fc.nat(5), decodeContextTokens: fc.nat(2) }),
  { minLength: 2, maxLength: 4 },
);
const limits = fc.record({
  "max-num-batched-tokens": fc.integer({ min: 4, max: 40 }),
  "max-num-seqs": fc.integer({ min: 1, max: 12 }),
});

test("one stage is the same as none", () => {
  fc.assert(
    fc.property(workloads(), limits, fc.integer({ min: 1, max: 50 }), (rows, schedulerOptions, fixed) => {
      const own = { scheduler, schedulerOptions, blocks: 30, events: true };
      const coefficients = { fixed, prefillTokens: 2, decodeContextTokens: 1 };
      expect(everythingOf(simulated(rows, { ...own, cost: pipelineOf([coefficients]) }))).toEqual(
        everythingOf(simulated(rows, { ...own, cost: linearCost(coefficients) })),
      );
    }),
    { numRuns: 30 },
  );
});

test("every request ends, Little's law holds, and no stage computes two batches at a time", () => {
  fc.assert(
    fc.property(
      workloads(),
      stageCosts,
      limits,
      fc.nat(9),
      fc.integer({ min: 12, max: 60 }),
      fc.constantFrom("fcfs-chunked", "priority"),
      (rows, coefficients, schedulerOptions, transferNs, blocks, scheduler) => {
        const cost = pipelineOf(coefficients, transferNs);
        const { loads, observer } = batches();
        const own: OwnSimulation = { cost, scheduler, schedulerOptions, blocks, audit: true, events: true };
        const simulation = simulated(rows, { ...own, observers: [observer] });
        const [arrivals, ends] = [outcome(simulation, "arrivalNs"), outcome(simulation, "finishedNs")];
        expect(simulation.done).toBe(rows.length);
        const latencies = ends.reduce((sum, end, id) => sum + end - arrivals[id], 0);
        expect(integralOf(simulation, "waiting") + integralOf(simulation, "running")).toBe(latencies);
        const busyNs = coefficients.map((_, stage) =>
          loads.reduce((ns, load) => ns + cost.stages.stageNs(stage, load), 0),
        );
        const [replica] = simulation.replicas;
        for (const ns of busyNs) expect(replica.busyNs).toBeGreaterThanOrEqual(ns);
        expect(replica.stepCount).toBe(loads.length);
        expect(replica.busyNs).toBe(integralOf(simulation, "busy"));
      },
    ),
    { numRuns: 150 },
  );
});

/** Collects the loads of all batches. */
function batches() {
  const loads: StepLoad[] = [];
  const observer = { steps: (_: unknown, load: Readonly<StepLoad>) => void loads.push({ ...load }) };
  return { loads, observer };
}

test.each([[1], [2], [4]])(
  "with %i stages and more requests than fit, throughput is that of the slowest stage",
  (stages) => {
    const slowest = { fixed: 100, prefillTokens: 2, decodeTokens: 3 };
    const cost = pipelineOf(Array.from({ length: stages }, (_, i) => (i === 1 ? slowest : { ...slowest, fixed: 90 })));
    const { loads, observer } = batches();
    const steps = new StepTable();
    const rows = Array.from({ length: 400 }, () => ({ prompt: 16, output: 20 }));
    const simulation = simulated(rows, {
      ...{ cost, scheduler, schedulerOptions: { "max-num-batched-tokens": 64, "max-num-seqs": 16 * stages } },
      observers: [observer, steps],
    });
    const boundNs = Math.max(
      ...Array.from({ length: stages }, (_, stage) =>
        loads.reduce((ns, load) => ns + cost.stages.stageNs(stage, load), 0),
      ),
    );
    expect(simulation.nowNs / boundNs).toBeGreaterThanOrEqual(1);
    expect(simulation.nowNs / boundNs).toBeLessThan(1.1);
  },
);
