import { InputError } from "../../core/errors.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import { presetRegistry } from "../../policies/registry.ts";
import type { CostModel } from "../../sim/cost/cost-model.ts";
import { cachedTokenBytes, kvNumberBytes } from "../../sim/cost/kv-bytes.ts";
import type { ModelShape } from "../../sim/cost/model-shape.ts";
import { type SimulationConfig, simulate } from "../../sim/simulation.ts";
import { partsNamed } from "../run/configuration.ts";
import { describe, simulatedFrom, simulationConfig, smallestStage, stageCacheBytes } from "../run/simulation.ts";
import type { SimulationOptions } from "../run/simulation-options.ts";
import type { RecordedEngine } from "./recorded-engine.ts";
import type { RecordedRun, RequestTimes } from "./recorded-run.ts";

/** The simulation of a recorded run: the preset of its version of vLLM with the run's model, GPU, parallelism, limits and number of blocks. */
export interface RecordedSystem {
  readonly config: SimulationConfig;
  /** As in a report of `kvlab replay --target sim`. */
  readonly description: ReturnType<typeof describe>;
}

/** The block that vLLM never allocates: its id stands for blocks that are not needed any more. */
const nullBlocks = 1;

/** @throws InputError if the simulator cannot represent the run */
export async function recordedSystem(
  { engine, trace }: RecordedRun,
  choice: Pick<SimulationOptions, "cost" | "efficiency"> = {},
): Promise<RecordedSystem> {
  const { dataParallel, pipelineParallel, blockTokens, maxTokens } = engine;
  const hasEffect = engine.tensorParallel * dataParallel > 1;
  const options: SimulationOptions = {
    ...{ model: engine.model, gpu: engine.gpu, gpuMemory: engine.memoryShare },
    ...{ tp: engine.tensorParallel, dp: dataParallel, pp: pipelineParallel, ep: engine.expertParallel && hasEffect },
    ...choice,
  };
  const simulated = await simulatedFrom(options, trace);
  const parts = await partsNamed(
    { preset: presetOf(engine), ...(!engine.prefixCaching && { index: "none" }) },
    {},
    "sim",
  );
  const { kvDtype, tensorParallel } = simulated;
  const blocksOf = (shape: ModelShape) => {
    const tokenBytes = cachedTokenBytes(shape, kvNumberBytes(kvDtype, shape), tensorParallel);
    return Math.floor(stageCacheBytes(simulated, shape, maxTokens) / tokenBytes / blockTokens);
  };
  const blocks = engine.blocks ?? smallestStage(simulated, blocksOf);
  const config = {
    ...parts,
    blockTokens,
    blocks: blocks - nullBlocks,
    schedulerOptions: {
      ...parts.schedulerOptions,
      "max-num-seqs": engine.maxSequences,
      "max-num-batched-tokens": maxTokens,
      "async-scheduling": Number(engine.asyncScheduling),
      "reserve-full-isl": Number(engine.reservesFullPrompt),
    },
    seed: 1,
  };
  return { config: await simulationConfig(config, simulated), description: describe(simulated) };
}

/** The preset of the engine's version; the newest one if there is none. */
function presetOf({ version }: RecordedEngine): string {
  const versioned = `vllm@${version.split(".").slice(0, 2).join(".")}`;
  return presetRegistry.all.some(({ name }) => name === versioned) ? versioned : "vllm";
}

/** The requests of a recorded run, simulated. Times in ns. */
export interface SimulatedRequests {
  readonly steps: StepTable;
  /** Start of the first step of the request's replica after the arrival. */
  readonly queuedNs: Float64Array;
  readonly firstTokenNs: Float64Array;
  readonly finishedNs: Float64Array;
  readonly preemptions: number;
  readonly hitTokens: number;
}

/** Simulates the requests, with the system's cost model or another one. @throws InputError if a request is refused */
export function simulateRequests(
  { trace, folder }: RecordedRun,
  { config }: RecordedSystem,
  cost: (replica: number) => CostModel = config.cost,
): SimulatedRequests {
  const steps = new StepTable();
  const { arrivals, replicas } = simulate(trace, { ...config, cost, observers: [steps] });
  const { arrivalNs, firstTokenNs, finishedNs, replica, refused } = arrivals.batches[0].outcomes;
  const row = refused.indexOf(1);
  if (row >= 0) throw new InputError(`${folder}: request ${row} is refused by the simulated engine`);
  const sum = (of: (counters: (typeof replicas)[number]["cache"]["counters"]) => number) =>
    replicas.reduce((all, { cache }) => all + of(cache.counters), 0);
  return {
    steps,
    queuedNs: nextStepStarts(arrivalNs, replica, steps),
    firstTokenNs,
    finishedNs,
    preemptions: sum(({ preemptions }) => preemptions),
    hitTokens: sum(({ hitTokens }) => hitTokens),
  };
}

/** The times of simulated requests, defined as those of a recorded run. */
export function timesOf(
  { trace }: RecordedRun,
  { queuedNs, firstTokenNs, finishedNs }: SimulatedRequests,
): RequestTimes {
  const startNs = queuedNs.reduce((least, ns) => Math.min(least, ns), Number.POSITIVE_INFINITY);
  const ms = (times: Float64Array) => times.map((ns) => (ns - startNs) / 1e6);
  return {
    queuedMs: ms(queuedNs),
    firstTokenMs: ms(firstTokenNs),
    finishedMs: ms(finishedNs),
    outputTokens: trace.outputTokens,
  };
}

/** The start of the next step of its replica after each arrival, or the arrival if there is none. */
function nextStepStarts(arrivalNs: Float64Array, replica: Int32Array, steps: StepTable): Float64Array {
  const starts = new Map<number, number[]>();
  steps.startNs.forEach((startNs, i) => {
    const list = starts.get(steps.replica[i]) ?? [];
    starts.set(steps.replica[i], list);
    list.push(startNs);
  });
  // Arrivals are in ascending order, and so are the steps of a replica.
  const next = new Map<number, number>();
  return arrivalNs.map((at, row) => {
    const list = starts.get(replica[row]) ?? [];
    let step = next.get(replica[row]) ?? 0;
    while (step < list.length && list[step] < at) step++;
    next.set(replica[row], step);
    return list[step] ?? at;
  });
}
