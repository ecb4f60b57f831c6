import { basename, join, resolve } from "node:path";
import { InputError } from "../../core/errors.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import type { TimeSeries } from "../../core/serving/time-series.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { type BackendName, defaultBackend } from "../../engine/backends.ts";
import { type Control, counting } from "../control.ts";
import { type Input, opened, type TraceChoice, type TraceReading } from "../input.ts";
import { commandOf } from "../output/command-line.ts";
import { machineReport, type RunReport, runReport, setupReport } from "../output/report.ts";
import { checkWritable, claimRunDirectory } from "../output/run-directory.ts";
import { runId, saveRun } from "../output/save.ts";
import { TimelineFile } from "../output/timeline-file.ts";
import { blocksOf, type Capacity, defaultCapacity } from "./capacity.ts";
import { checkTarget } from "./check-target.ts";
import {
  blockTokensFor,
  checkMemory,
  deviceOf,
  type PartChoice,
  type Parts,
  partsNamed,
  type RunConfig,
  schedulerOptionsOn,
} from "./configuration.ts";
import type { LiveRun } from "./live.ts";
import { withLoad } from "./load.ts";
import { OperationsPlayer, readOperations } from "./operations-file.ts";
import { engineCapacity, engineFrom } from "./real-engine.ts";
import { distinctPromptBlocks, type Run, runReplay, servedRequests } from "./run.ts";
import { capacityFrom, simulatedFrom } from "./simulation.ts";
import type { SimulationOptions } from "./simulation-options.ts";
import type { Target } from "./target.ts";
import { isEngine } from "./target.ts";

/** A run that dashboards show while it runs. */
export interface LiveOptions {
  /** The folder of runs that the dashboards show. */
  readonly runs: string;
  /** Called with a message if the run can no longer be shown. */
  warn(message: string): void;
}

/** One configuration, and how it runs over a trace. Omitted plug-ins and rules are those of the preset, or the defaults. */
export interface TraceRunOptions extends PartChoice, TraceReading, Control {
  /** Reuse rules that differ from those of the preset, or from the defaults. */
  readonly rules?: Parts["rules"] | undefined;
  /** Size of the cache. */
  readonly blocks?: Capacity;
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
  /** Leading requests that are served but not measured. */
  readonly warmup?: number;
  /** Random seed of the policies and of the model. */
  readonly seed?: number;
  /** Runs this number of times after a first run, and reports the median time. */
  readonly repeat?: number | undefined;
  /** Checks every invariant after every step. */
  readonly audit?: boolean;
  /** Keeps the event log. */
  readonly events?: boolean;
  /** A file of operator-initiated operations. */
  readonly operations?: string;
  /** A file to write the timeline to, in the format of Perfetto. */
  readonly timeline?: string;
  /** Saves the run in this folder (`as`), or under its id in a folder of runs (`below`). */
  readonly save?: { readonly as: string } | { readonly below: string } | undefined;
  /** Shows the run in dashboards of this folder while it runs; `warn` gets a message if that fails. */
  readonly live?: LiveOptions | undefined;
}

/**
 * Options of a replay. Of the options of timed runs, only `maxOutput`, `schedulerOption`, and `model` with `capacity` have an
 * effect.
 */
export interface ReplayOptions
  extends TraceRunOptions,
    Pick<SimulationOptions, "model" | "tp" | "kvDtype" | "capacity" | "schedulerOption" | "maxOutput"> {}

/** Options of a run in virtual time on modelled hardware. */
export interface SimulateOptions
  extends TraceRunOptions,
    Omit<SimulationOptions, "threads" | "bits" | "pace" | "outputLengths" | "fold"> {}

/** Options of a run in real time on an engine. */
export interface ServeOptions
  extends TraceRunOptions,
    Omit<
      SimulationOptions,
      | ("gpu" | "tp" | "dp" | "ep" | "expertExchange" | "pp" | "kvDtype" | "gpuMemory" | "cost" | "efficiency")
      | ("replicas" | "router" | "routerOption" | "network")
      | ("prefillReplicas" | "decodeReplicas" | "decodeRouter" | "kvLink" | "speculate")
    > {
  /** The engine backend; by default the one on the CPU. */
  readonly backend?: BackendName;
}

/** A finished run. */
export interface TraceRun {
  /** The document that `kvlab replay --json` prints: schema run/1. */
  readonly report: RunReport;
  /** The trace that was run. */
  readonly input: Input;
  /** Per-request results, event logs, counters; of a timed run also steps and the time series. */
  readonly result: Run["result"];
  /** For a timed run: queue lengths, batch sizes and blocks over time. */
  readonly series: TimeSeries | undefined;
  /** Number of distinct prompt blocks. */
  readonly distinctBlocks: number;
  /** The size of the cache is the default share of the distinct blocks. */
  readonly isDefaultSize: boolean;
  /** The plug-ins and rules that were run. */
  readonly parts: Parts;
  /** The folder of the saved run. */
  readonly directory: string | undefined;
}

/** Runs the policies over a trace without a clock: hits, misses and their reasons. */
export const replay = (trace: TraceChoice, options: ReplayOptions = {}): Promise<TraceRun> =>
  runTrace(trace, { ...options, target: "cache" });

/** Serves a trace in virtual time with one or more simulated replicas. */
export const simulate = (trace: TraceChoice, options: SimulateOptions = {}): Promise<TraceRun> =>
  runTrace(trace, { ...options, target: "sim" });

/**
 * Serves a trace in real time with a model on an engine backend. If the signal is aborted after requests have finished, returns a
 * report of those, with `interrupted`.
 */
export const serveTrace = (trace: TraceChoice, options: ServeOptions = {}): Promise<TraceRun> =>
  runTrace(trace, { ...options, target: options.backend ?? defaultBackend.name });

/**
 * Runs one configuration over a trace on a target.
 *
 * @throws InputError, TraceError, PolicyError naming the file of a plug-in, ExecutorError, Interrupted
 */
export async function runTrace(
  source: TraceChoice,
  options: TraceRunOptions & SimulationOptions & { readonly target: Target },
): Promise<TraceRun> {
  const { target, rules = {}, seed = 1, warmup = 0, repeat, save, signal } = options;
  const parts = await partsNamed(options, rules, target);
  checkConflicts(options, parts.eviction);
  checkTarget(options);
  const operations = options.operations === undefined ? undefined : await readOperations(options.operations);
  if (save && "as" in save) await claimRunDirectory(save.as);
  else if (save) await checkWritable(save.below, save.below);
  const timeline =
    options.timeline === undefined
      ? undefined
      : await TimelineFile.open(options.timeline, [...filesOf(source), ...inputFiles(options)]);

  let live: LiveRun | undefined;
  try {
    const read = await opened(source, options, { lengths: target === "sim" && parts.index.storesNothing === true });
    const input = { ...read, trace: withLoad(read.trace, options) };
    const { trace } = input;
    checkWarmup(warmup, trace);
    const simulated = target === "sim" ? await simulatedFrom(options, trace) : undefined;
    const engine = isEngine(target) ? engineFrom({ ...options, target }, trace) : undefined;
    const configured = {
      ...parts,
      schedulerOptions: schedulerOptionsOn(parts, deviceOf(simulated, engine)),
      blockTokens: blockTokensFor(trace, options.blockSize, parts.preset),
      blocks: undefined,
      seed,
    };
    const blocks = CacheReplay.blockKeys(configured, trace);
    const distinctBlocks = distinctPromptBlocks(blocks);
    const capacity = engine
      ? engineCapacity(options, engine, configured.blockTokens)
      : await capacityFrom(options, simulated, configured);
    const player = operations && new OperationsPlayer(operations, trace, blocks);
    const config: RunConfig = {
      ...configured,
      ...(player && { before: (...args) => player.before(...args) }),
      blocks: parts.eviction.unlimited ? undefined : blocksOf(capacity ?? defaultCapacity, distinctBlocks),
      schedulerOptions: { ...configured.schedulerOptions, ...options.schedulerOption },
      simulated,
      engine,
      warmup,
      events: options.events ?? false,
      audit: options.audit ?? false,
    };
    checkMemory(config.blocks);
    live = await liveRun(input, config, options);
    const doing = simulated ? "simulating" : engine ? "serving" : "replaying";
    const run = await runReplay(trace, blocks, config, {
      repeat,
      keepSteps: save !== undefined,
      observers: timeline ? [timeline.timeline] : [],
      advance: counting(options, doing, servedRequests(trace, repeat)),
      watch: (run) => live?.watch(run),
      signal,
    });
    live?.saving();
    await timeline?.close();

    const report = runReport(input, blocks, run, player?.results);
    let directory: string | undefined;
    if (save) {
      options.progress?.({ doing: "saving", done: 0 });
      const claimed = await claimRunDirectory("as" in save ? save.as : join(save.below, runId(input, report)));
      // The results of an interrupted run are saved although the signal is aborted.
      const until = report.interrupted ? undefined : signal;
      await saveRun(claimed, run, report, commandOf(report, options, ruleTexts(rules)), until);
      directory = claimed.path;
    }
    return {
      report,
      input,
      result: run.result,
      series: run.simulation?.series,
      distinctBlocks,
      isDefaultSize: capacity === undefined && !parts.eviction.unlimited,
      parts,
      directory,
    };
  } finally {
    live?.close();
  }
}

export const ruleTexts = (rules: Parts["rules"]): string[] =>
  Object.entries(rules).map(([name, value]) => `${name}=${value}`);

/** The live folder of the run, if `live` is given. Repeated runs are not shown. */
async function liveRun(
  input: Input,
  config: RunConfig,
  options: TraceRunOptions & SimulationOptions & { readonly target: Target },
): Promise<LiveRun | undefined> {
  const { live, save, operations, repeat, rules = {} } = options;
  if (live === undefined || repeat !== undefined) return undefined;
  const setup = setupReport(input, config);
  const { simulated, engine } = config;
  const id = () =>
    // The results of operations are part of a run's id.
    operations === undefined
      ? runId(input, { ...setup, ...machineReport(config), slo: (simulated ?? engine)?.slo })
      : undefined;
  const run = save && ("as" in save ? basename(resolve(save.as)) : id());
  const { preset, index, eviction, allocator, scheduler, rules: effective, blocks, blockTokens } = setup.policy;
  const { LiveRun } = await import("./live.ts");
  return await LiveRun.open(
    live.runs,
    {
      ...{ command: commandOf(setup, options, ruleTexts(rules)), run: run ?? null, trace: input.name },
      ...{ requests: input.trace.requestCount, target: options.target },
      ...{ preset, index, eviction, allocator, scheduler, victims: effective.victims, blocks, blockTokens },
    },
    live.warn,
  );
}

const filesOf = (source: TraceChoice): readonly string[] =>
  typeof source === "string" ? [source] : "trace" in source ? source.files : source;

/** Files that are read besides the trace; names that are not files have no effect. */
const inputFiles = ({ operations, cost, model }: TraceRunOptions & SimulationOptions): string[] =>
  [operations, cost, model].filter((file) => typeof file === "string");

/** @throws InputError if two options contradict each other */
function checkConflicts(options: TraceRunOptions & SimulationOptions, eviction: EvictionPlugin): void {
  const { blocks, capacity, operations, repeat, timeline } = options;
  const replicas = options.replicas ?? (options.prefillReplicas ?? 0) + (options.decodeReplicas ?? 1);
  if (blocks !== undefined && capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both set the size of the cache");
  if (timeline !== undefined && repeat !== undefined)
    throw new InputError("--timeline and --repeat exclude each other: a timeline is of one run");
  if (operations !== undefined && repeat !== undefined)
    throw new InputError("--operations and --repeat exclude each other: operations apply to a single replay");
  if (operations !== undefined && replicas > 1)
    throw new InputError("--operations needs a single replica, because operations do not name one");
  if (eviction.unlimited && (capacity !== undefined || (blocks !== undefined && blocks !== "unlimited")))
    throw new InputError(
      `--${capacity === undefined ? "blocks" : "capacity"} and --eviction ${eviction.name} exclude each other: its cache has no limit`,
    );
}

/** @throws InputError if no request would be left to report */
export function checkWarmup(warmup: number, { requestCount }: Trace): void {
  if (warmup >= requestCount)
    throw new InputError(`--warmup is ${warmup}, the trace has only ${requestCount} requests`);
}
