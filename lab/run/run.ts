import type { Counters } from "../../core/cache/counters.ts";
import { assert } from "../../core/errors.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import type { Fragmentation } from "../../core/plugins/index.ts";
import { CacheReplay, type ReplayConfig, type RequestResults } from "../../core/replica/replay.ts";
import { median } from "../../core/serving/distribution.ts";
import type { StepObserver } from "../../core/serving/observers.ts";
import { never } from "../../core/serving/outcomes.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { stopwatch } from "../../engine/clock.ts";
import { type Control, Interrupted, yieldToEvents } from "../control.ts";
import type { BlockBatch, BlockBatches } from "./block-stream.ts";
import { simulateInThreads } from "./cluster-threads.ts";
import type { RunConfig } from "./configuration.ts";
import { futureOf } from "./future.ts";
import { runEngine } from "./run-engine.ts";
import { runSimulation } from "./run-simulation.ts";
import { discarded, type RunSink } from "./run-sink.ts";
import type { ServedMetrics, Watched } from "./served-result.ts";
import { simulationConfig } from "./simulation.ts";
import { sliceMs, withFile } from "./slices.ts";

/** The results of a run on any target. */
export interface RunResult {
  readonly counters: Counters;
  readonly fragmentation: Fragmentation | undefined;
  readonly requests: RequestResults;
  /** One log for each replica, if `events` is set. */
  readonly logs: readonly EventLog[];
}

/** The results of a run whose requests may have been passed to a sink. */
type AnyResult = Omit<RunResult, "requests"> & { readonly requests: RequestResults | undefined };

/** A finished run of any target. */
export interface Run {
  readonly config: RunConfig;
  readonly result: AnyResult;
  /** The results of a timed run, simulated or real. */
  readonly simulation?: ServedMetrics;
  /** Block references of all prompts, warm-up included; in a timed run, only of finished requests. */
  readonly blockReferences: number;
  /** Wall-clock time of the run itself; the median of repeated runs. */
  readonly wallMs: number;
}

export interface RunOptions extends Pick<Control, "signal"> {
  /** Number of measured runs after a first one; undefined: a single run. */
  readonly repeat?: number | undefined;
  /** Timed runs: records every step. */
  readonly keepSteps?: boolean;
  readonly observers?: readonly StepObserver[];
  /** Called with the size of each finished slice of requests, warm-up included. */
  readonly advance?: (requests: number) => void;
  /** Called with each run when it starts. */
  readonly watch?: (run: Watched) => void;
  /** Receives the results of requests, which are then not kept; of repeated runs those of the last one. */
  readonly sink?: RunSink | undefined;
}

/** Number of requests that `runReplay` serves in total. */
export const servedRequests = (requests: number, repeat?: number) => requests * (repeat === undefined ? 1 : repeat + 1);

/** Runs a trace, each time from an empty cache. @throws Interrupted, and PolicyError naming a plug-in file */
export async function runReplay(input: BlockBatches, config: RunConfig, options: RunOptions = {}): Promise<Run> {
  const { repeat, sink, advance = () => {} } = options;
  const once = runner(input, config, options, advance);
  if (repeat !== undefined) await once(sink && discarded);
  const times: number[] = [];
  let last: MeasuredRun | undefined;
  for (let i = 1; i <= (repeat ?? 1); i++) {
    last = await once(sink && (i < (repeat ?? 1) ? discarded : sink));
    times.push(last.wallMs);
  }
  return { config, ...last!, wallMs: median(times) };
}

type MeasuredRun = Omit<Run, "config">;

/** Returns a function that runs the trace once, from an empty cache. */
function runner(
  input: BlockBatches,
  config: RunConfig,
  { repeat, keepSteps = false, observers = [], watch: watching, signal }: RunOptions,
  advance: (requests: number) => void,
): (sink: RunSink | undefined) => Promise<MeasuredRun> {
  const { simulated, engine } = config;
  const watch = watching ?? (() => {});
  const served = { keepSteps, observers, advance, watch, signal };
  if (engine)
    return async () => {
      const { trace, blocks } = await onlyBatch(input);
      const { result, wallMs } = await runEngine(trace, blocks, config, engine, served);
      // A partial run of several is not comparable.
      if (result.interrupted && repeat !== undefined) throw new Interrupted();
      const references = blockReferences(blocks, result.requests.finishedNs);
      return { result, simulation: result, blockReferences: references, wallMs };
    };
  const withFuture = async () =>
    config.eviction.offline ? { ...config, future: await futureOf(input, config) } : config;
  if (simulated) {
    const options = { ...served, slo: simulated.slo };
    const isUnobserved = observers.length === 0 && watching === undefined;
    return async (sink) => {
      if (isUnobserved && sink !== undefined) {
        const elapsedMs = stopwatch();
        const result = await simulateInThreads(input, config, simulated, { ...options, sink });
        if (result)
          return { result, simulation: result, blockReferences: await referencesOf(input), wallMs: elapsedMs() };
      }
      const simulation = await simulationConfig(await withFuture(), simulated);
      const { result, blockReferences, wallMs } = await runSimulation(input, simulation, { ...options, sink });
      return { result, simulation: result, blockReferences, wallMs };
    };
  }
  const slices = new Slices();
  return async (sink) => await replayOnce(input, await withFuture(), { slices, sink, advance, watch, signal });
}

async function referencesOf(input: BlockBatches): Promise<number> {
  let references = 0;
  for await (const { blocks } of input.batches()) references += blockReferences(blocks);
  return references;
}

/** The trace of a run that needs it as a whole. */
export async function onlyBatch(input: BlockBatches): Promise<BlockBatch> {
  const all: BlockBatch[] = [];
  for await (const batch of input.batches()) all.push(batch);
  assert(all.length === 1, `${all.length} batches of a trace, expected the whole trace`);
  return all[0];
}

interface ReplayOptions extends Required<Pick<RunOptions, "advance" | "watch">>, Pick<RunOptions, "sink" | "signal"> {
  readonly slices: Slices;
}

async function replayOnce(
  input: BlockBatches,
  config: ReplayConfig,
  { slices, sink, advance, watch, signal }: ReplayOptions,
): Promise<MeasuredRun> {
  const replay = new CacheReplay(config, sink && ((results) => sink.addRequests(results)));
  let wallMs = 0;
  let done = 0;
  let references = 0;
  watch({
    get done() {
      return done;
    },
    get replicas() {
      const { cache, log } = replay;
      return cache ? [{ cache, log }] : [];
    },
  });
  for await (const { trace, blocks } of input.batches()) {
    references += blockReferences(blocks);
    for (const [from, to] of slices.of(trace.requestCount)) {
      const elapsedMs = stopwatch();
      try {
        replay.feed(trace, blocks, from, to);
      } catch (error) {
        throw withFile(error, config);
      }
      const sliceWallMs = elapsedMs();
      wallMs += sliceWallMs;
      slices.adapt(sliceWallMs);
      done += to - from;
      if (replay.log) sink?.addEvents?.(0, replay.log);
      advance(to - from);
      await yieldToEvents(signal);
    }
  }
  const { cache, log } = replay.end();
  const { counters, fragmentation } = cache;
  const requests = sink ? undefined : replay.result().requests;
  const result = { counters, fragmentation, requests, logs: log ? [log] : [] };
  return { result, blockReferences: references, wallMs };
}

/** Ranges of rows: large enough to be fast, small enough to be interrupted between them. */
class Slices {
  #rows = 512;

  /** Adapts the size of slices to the wall-clock time of the last one. */
  adapt(ms: number): void {
    const fitting = (this.#rows * sliceMs) / Math.max(ms, 0.1);
    this.#rows = Math.ceil(Math.min(Math.max(fitting, this.#rows / 4), this.#rows * 4));
  }

  *of(requestCount: number): Generator<[from: number, to: number]> {
    for (let from = 0; from < requestCount; ) {
      const to = Math.min(from + this.#rows, requestCount);
      yield [from, to];
      from = to;
    }
  }
}

/** Block references of all prompts; in a timed run, only of finished requests. */
export function blockReferences({ promptBlocks }: BlockColumns, finishedNs?: Float64Array): number {
  let count = 0;
  promptBlocks.forEach((blocks, row) => {
    if (finishedNs?.[row] !== never) count += blocks;
  });
  return count;
}
