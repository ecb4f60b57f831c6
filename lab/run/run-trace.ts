import { assert, InputError } from "../../core/errors.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";
import { LateNamespaces } from "../../core/trace/content.ts";
import { defaultBackend } from "../../engine/backends.ts";
import { standardInputPath } from "../../traces/bytes.ts";
import { explainOption, needsLog } from "../explain/run-logs.ts";
import { opened, streamed, type TraceChoice } from "../input.ts";
import { checkWritable, claimRunDirectory } from "../output/run-directory.ts";
import { TimelineFile } from "../output/timeline-file.ts";
import { TraceStream } from "../trace-stream.ts";
import { checkTarget } from "./check-target.ts";
import { partsNamed } from "./configuration.ts";
import { readOperations } from "./operations-file.ts";
import { type Preparation, runStream } from "./run-stream.ts";
import type { SimulationOptions } from "./simulation-options.ts";
import type {
  ReplayOptions,
  ServeOptions,
  SimulateOptions,
  StreamedRun,
  TargetOptions,
  TraceRun,
  TraceRunOptions,
} from "./trace-run.ts";

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
export async function runTrace(source: TraceChoice, options: TargetOptions): Promise<TraceRun> {
  return await prepared(source, options, async (preparation) => {
    const input = await opened(source, options, allowed(options, preparation));
    const stream = TraceStream.of(input.trace, input);
    const {
      run,
      trace,
      traceName: _name,
      lengthsOnly: _lengths,
      ...finished
    } = await runStream(stream, options, { ...preparation, isWhole: true });
    const { requests } = run.result;
    assert(trace !== undefined && requests !== undefined, "the trace and its results were not kept");
    return { ...finished, input: { ...input, trace }, result: { ...run.result, requests } };
  });
}

/**
 * The same, with memory that does not grow with the number of requests: the trace is read batch by batch, unless the
 * configuration needs it as a whole, and results of requests are only saved.
 *
 * @throws as `runTrace`
 */
export async function streamTrace(source: TraceChoice, options: TargetOptions): Promise<StreamedRun> {
  return await prepared(source, options, async (preparation) => {
    const stream = await streamed(source, options, allowed(options, preparation));
    try {
      return await runStream(stream, options, preparation);
    } catch (error) {
      if (!(error instanceof LateNamespaces) || preparation.timeline) throw error;
      if (stream.files.includes(standardInputPath))
        throw new InputError(`standard input: ${error.message}, which needs a second pass: expected a file`);
      return await runStream(stream, options, { ...preparation, isWhole: true });
    } finally {
      await stream.close();
    }
  });
}

/** A trace of lengths has no content for an index. */
const allowed = ({ target }: TargetOptions, { parts }: Preparation) => ({
  lengths: target === "sim" && parts.index.storesNothing === true,
});

/** Checks the options and opens files, before the trace is read. */
async function prepared<Result>(
  source: TraceChoice,
  options: TargetOptions,
  run: (preparation: Preparation) => Promise<Result>,
): Promise<Result> {
  const { rules = {}, save } = options;
  const parts = await partsNamed(options, rules, options.target);
  checkConflicts(options, parts.eviction);
  checkTarget(options);
  const operations = options.operations === undefined ? undefined : await readOperations(options.operations);
  if (save && "as" in save) await claimRunDirectory(save.as);
  else if (save) await checkWritable(save.below, save.below);
  const timeline =
    options.timeline === undefined
      ? undefined
      : await TimelineFile.open(options.timeline, [...filesOf(source), ...inputFiles(options)]);
  try {
    return await run({ parts, operations, timeline });
  } catch (error) {
    timeline?.discard();
    throw error;
  }
}

const filesOf = (source: TraceChoice): readonly string[] =>
  typeof source === "string" ? [source] : "trace" in source ? source.files : source;

/** Files that are read besides the trace; names that are not files have no effect. */
const inputFiles = ({ operations, cost, model }: TraceRunOptions & SimulationOptions): string[] =>
  [operations, cost, model].filter((file) => typeof file === "string");

/** @throws InputError if two options contradict each other */
export function checkConflicts(options: TraceRunOptions & SimulationOptions, eviction: EvictionPlugin): void {
  const { blocks, capacity, operations, repeat, timeline } = options;
  const replicas = options.replicas ?? (options.prefillReplicas ?? 0) + (options.decodeReplicas ?? 1);
  if (blocks !== undefined && capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both set the size of the cache");
  if (repeat !== undefined && needsLog(options))
    throw new InputError(`${explainOption(options)} and --repeat exclude each other: explanations are of one run`);
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
