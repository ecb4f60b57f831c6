import { assert } from "../../core/errors.ts";
import { CachedCopies } from "../../core/serving/cached-copies.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { stopwatch } from "../../engine/clock.ts";
import { Simulation, type SimulationConfig } from "../../sim/simulation.ts";
import { yieldToEvents } from "../control.ts";
import { type BlockBatches, inMemory } from "./block-stream.ts";
import type { RunSink } from "./run-sink.ts";
import {
  type ServedMetrics,
  type ServedResult,
  type ServingOptions,
  servedMetrics,
  servedResult,
} from "./served-result.ts";
import { sliceMs, withFile } from "./slices.ts";

/** Simulates a trace in memory. @throws as `runSimulation` */
export async function simulateWhole(
  trace: Trace,
  blocks: BlockColumns,
  config: SimulationConfig,
  options: ServingOptions = {},
): Promise<ServedResult> {
  const { result } = await runSimulation(inMemory(trace, blocks), config, options);
  const { requests } = result;
  assert(requests !== undefined, "the results of a simulation were not kept");
  return { ...result, requests };
}

/**
 * Simulates a trace, in slices that can be interrupted. With a `sink`, the next batch is read when the simulation reaches its first
 * arrival, and the results of ended requests are passed on.
 *
 * @throws Interrupted, PolicyError naming a plug-in file
 */
export async function runSimulation(
  input: BlockBatches,
  config: SimulationConfig,
  options: ServingOptions & { readonly sink?: RunSink | undefined } = {},
): Promise<{ readonly result: ServedMetrics; readonly blockReferences: number; readonly wallMs: number }> {
  const { slo, keepSteps, observers = [], advance = () => {}, watch, sink, signal } = options;
  const steps = keepSteps ? new StepTable() : undefined;
  let references = 0;
  const simulation = new Simulation({
    ...config,
    observers: [...(steps ? [steps] : []), ...observers],
    sink: sink && ((outcomes) => sink.addRequests(outcomes, outcomes)),
  });
  let wallMs = 0;
  let reported = 0;
  let events = 1024;
  /** Runs until the next request must be fed, or to the end. */
  const run = async () => {
    for (let isMore = true; isMore; ) {
      const elapsedMs = stopwatch();
      try {
        isMore = simulation.run(events);
      } catch (error) {
        throw withFile(error, config);
      }
      const sliceWallMs = elapsedMs();
      wallMs += sliceWallMs;
      events = Math.ceil(Math.min(Math.max((events * sliceMs) / Math.max(sliceWallMs, 0.1), events / 4), events * 4));
      advance(simulation.done - reported);
      reported = simulation.done;
      if (steps && sink) {
        sink.addSteps(steps);
        steps.clear();
      }
      for (const { number, log } of simulation.replicas) if (log) sink?.addEvents?.(number, log);
      await yieldToEvents(signal);
    }
  };
  let isWatched = false;
  const isMatchedAgain = sink !== undefined && (config.replicas ?? 1) > 1;
  for await (const { trace, blocks } of input.batches(isMatchedAgain)) {
    const elapsedMs = stopwatch();
    simulation.feed(trace, blocks);
    wallMs += elapsedMs();
    for (const count of blocks.promptBlocks) references += count;
    if (!isWatched) watch?.(simulation);
    isWatched = true;
    await run();
  }
  simulation.end();
  await run();
  const { warmup } = config;
  const copies = isMatchedAgain ? await cachedCopies(simulation, input, signal) : undefined;
  const result = sink
    ? servedMetrics(simulation, { steps: undefined, slo, warmup, copies })
    : servedResult(simulation, { steps, slo, warmup });
  return { result, blockReferences: references, wallMs };
}

/** Matches the prompts, which are read once more, when all requests have ended. */
async function cachedCopies(
  { replicas, arrivals }: Simulation,
  input: BlockBatches,
  signal: AbortSignal | undefined,
): Promise<CachedCopies> {
  const copies = new CachedCopies(replicas);
  let batch = 0;
  for await (const { blocks } of input.batches()) {
    copies.add(blocks, arrivals.passedOn[batch++].outcomes);
    await yieldToEvents(signal);
  }
  return copies;
}
