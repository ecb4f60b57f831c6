import type { Counters } from "../../core/cache/counters.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import type { Fragmentation } from "../../core/plugins/index.ts";
import { CacheReplay, type ReplayConfig, type RequestResults } from "../../core/replica/replay.ts";
import { median } from "../../core/serving/distribution.ts";
import type { StepObserver } from "../../core/serving/observers.ts";
import { never } from "../../core/serving/outcomes.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { stopwatch } from "../../engine/clock.ts";
import { type Control, Interrupted, yieldToEvents } from "../control.ts";
import type { RunConfig } from "./configuration.ts";
import { runEngine } from "./run-engine.ts";
import { runSimulation } from "./run-simulation.ts";
import type { ServedResult, Watched } from "./served-result.ts";
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

/** A finished run of any target. */
export interface Run {
  readonly config: RunConfig;
  readonly result: RunResult;
  /** The results of a timed run, simulated or real. */
  readonly simulation?: ServedResult;
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
}

/** Number of requests that `runReplay` serves in total. */
export const servedRequests = (trace: Trace, repeat?: number) =>
  trace.requestCount * (repeat === undefined ? 1 : repeat + 1);

/** Replays a trace, each time from an empty cache. @throws Interrupted, and PolicyError naming a plug-in file. */
export async function runReplay(
  trace: Trace,
  blocks: BlockColumns,
  config: RunConfig,
  options: RunOptions = {},
): Promise<Run> {
  const { repeat, advance = () => {} } = options;
  const once = runner(trace, blocks, config, options, advance);
  if (repeat !== undefined) await once();
  const times: number[] = [];
  let last: MeasuredRun | undefined;
  for (let i = 0; i < (repeat ?? 1); i++) {
    last = await once();
    times.push(last.wallMs);
  }
  return { config, ...last!, wallMs: median(times) };
}

type MeasuredRun = Omit<Run, "config">;

/** Returns a function that runs the trace once, from an empty cache. */
function runner(
  trace: Trace,
  blocks: BlockColumns,
  config: RunConfig,
  { repeat, keepSteps = false, observers = [], watch = () => {}, signal }: RunOptions,
  advance: (requests: number) => void,
): () => Promise<MeasuredRun> {
  const { simulated, engine } = config;
  const served = { keepSteps, observers, advance, watch, signal };
  if (engine)
    return async () => {
      const { result, wallMs } = await runEngine(trace, blocks, config, engine, served);
      // A partial run of several is not comparable.
      if (result.interrupted && repeat !== undefined) throw new Interrupted();
      return { result, simulation: result, wallMs };
    };
  if (simulated) {
    const options = { ...served, slo: simulated.slo };
    return async () => {
      const simulation = await simulationConfig(config, simulated);
      const { result, wallMs } = await runSimulation(trace, blocks, simulation, options);
      return { result, simulation: result, wallMs };
    };
  }
  const slices = new Slices(trace, blocks);
  return async () => await replayOnce(slices, config, advance, watch, signal);
}

async function replayOnce(
  slices: Slices,
  config: ReplayConfig,
  advance: (requests: number) => void,
  watch: (run: Watched) => void,
  signal: AbortSignal | undefined,
) {
  const replay = new CacheReplay(config);
  const { trace, blocks } = slices;
  let wallMs = 0;
  let done = 0;
  watch({
    get done() {
      return done;
    },
    get replicas() {
      const { cache, log } = replay;
      return cache ? [{ cache, log }] : [];
    },
  });
  try {
    for (const [from, to] of slices.all()) {
      const elapsedMs = stopwatch();
      replay.feed(trace, blocks, from, to);
      const sliceWallMs = elapsedMs();
      wallMs += sliceWallMs;
      slices.adapt(sliceWallMs);
      done = to;
      advance(to - from);
      await yieldToEvents(signal);
    }
  } catch (error) {
    throw withFile(error, config);
  }
  const { cache, requests, log } = replay.result();
  const { counters, fragmentation } = cache;
  return { result: { counters, fragmentation, requests, logs: log ? [log] : [] }, wallMs };
}

/** Ranges of a trace's rows: large enough to be fast, small enough to be interrupted between them. */
class Slices {
  readonly trace: Trace;
  readonly blocks: BlockColumns;
  #rows = 512;

  constructor(trace: Trace, blocks: BlockColumns) {
    this.trace = trace;
    this.blocks = blocks;
  }

  /** Adapts the size of slices to the wall-clock time of the last one. */
  adapt(ms: number): void {
    const fitting = (this.#rows * sliceMs) / Math.max(ms, 0.1);
    this.#rows = Math.ceil(Math.min(Math.max(fitting, this.#rows / 4), this.#rows * 4));
  }

  *all(): Generator<[from: number, to: number]> {
    const { requestCount } = this.trace;
    for (let from = 0; from < requestCount; ) {
      const to = Math.min(from + this.#rows, requestCount);
      yield [from, to];
      from = to;
    }
  }
}

/** Number of distinct content ids among the blocks of all prompts. */
export function distinctPromptBlocks({ keys, start, promptBlocks, distinct }: BlockColumns): number {
  const seen = new Uint8Array(distinct);
  let count = 0;
  for (let r = 0; r < promptBlocks.length; r++) {
    for (let at = start[r]; at < start[r] + promptBlocks[r]; at++) {
      if (seen[keys[at]] === 1) continue;
      seen[keys[at]] = 1;
      count++;
    }
  }
  return count;
}

/** Block references of all prompts, warm-up included; in a timed run, only of finished requests. */
export function blockReferences({ promptBlocks }: BlockColumns, finishedNs?: Float64Array): number {
  let count = 0;
  promptBlocks.forEach((blocks, row) => {
    if (finishedNs?.[row] !== never) count += blocks;
  });
  return count;
}
