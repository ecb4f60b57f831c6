// The functions of the package. Each loads its modules when it is called, so that importing the package takes little time.

import type { BoundAtSize, OfflineBoundOptions } from "./bound/offline-bound.ts";
import type { Calibrated, CalibrateOptions } from "./calibrate/calibrate.ts";
import type { CalibrateProfileOptions, ProfileDocument } from "./calibrate/calibrate-profile.ts";
import type { Checked, CheckOptions } from "./check/check.ts";
import type { CompareOptions, ReplayComparison } from "./compare/compare.ts";
import type { ServedComparison, ServedComparisonOptions } from "./compare/compare-served.ts";
import type { DifferenceOptions, FirstDifferences } from "./compare/first-difference.ts";
import type { Conformance } from "./conformance/conformance.ts";
import type { Control } from "./control.ts";
import type { CurveOptions, Curves } from "./curve/curves.ts";
import type { DoctorDocument, DoctorOptions } from "./doctor/doctor.ts";
import type { ExperimentList, ExperimentOptions, ExperimentRun } from "./experiments/run-experiment.ts";
import type { FidelityOptions, FidelityReport } from "./fidelity/fidelity.ts";
import type { BeatOptions, BeatSearch, FuzzOptions, FuzzSearch } from "./fuzz/fuzz.ts";
import type { SideChoice } from "./fuzz/sides.ts";
import type { Generated, GenerateOptions } from "./generate/generate.ts";
import type { Input, TraceChoice, TraceReading } from "./input.ts";
import type { PluginList } from "./plugin-list.ts";
import type { ProfileFolder } from "./profiles/catalogue.ts";
import type { ReplayOptions, ServeOptions, SimulateOptions, TraceRun } from "./run/trace-run.ts";
import type { Sized } from "./size/size.ts";
import type { SizeOptions } from "./size/size-options.ts";
import type { SweepConfiguration } from "./sweep/options.ts";
import type { SweepOptions, SweepReport } from "./sweep/sweep.ts";
import type { AnonymizeTraceOptions } from "./traces/anonymize-trace.ts";
import type { ConvertTraceOptions, WrittenTrace } from "./traces/convert-trace.ts";
import type { FetchedTrace, FetchTraceOptions } from "./traces/fetch-trace.ts";
import type { GenerateTraceOptions } from "./traces/generate-trace.ts";
import type { LikeTraceOptions, TraceLikeness } from "./traces/like-trace.ts";
import type { PublicTrace } from "./traces/public-traces.ts";
import type { DescribedTrace, TraceStatsOptions } from "./traces/trace-stats.ts";
import type { PluginKind, Plugins } from "./user-plugins/kinds.ts";
import type { Verified, VerifyOptions } from "./verify/verify.ts";

/**
 * Reads trace files into memory, one after the other, as one trace. Without a path, or for "example", it is the built-in example.
 *
 * @throws InputError if an option is invalid; TraceError naming file and line; Interrupted
 */
export async function openTrace(paths?: string | readonly string[], options?: TraceReading & Control): Promise<Input> {
  return (await import("./input.ts")).openTrace(paths, options);
}

/**
 * Runs the policies over a trace without a clock: hits, misses and their reasons. `kvlab replay`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, Interrupted
 */
export async function replay(trace: TraceChoice, options?: ReplayOptions): Promise<TraceRun> {
  return (await import("./run/run-trace.ts")).replay(trace, options);
}

/**
 * Serves a trace in virtual time with one or more simulated replicas. `kvlab replay --target sim`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, Interrupted
 */
export async function simulate(trace: TraceChoice, options?: SimulateOptions): Promise<TraceRun> {
  return (await import("./run/run-trace.ts")).simulate(trace, options);
}

/**
 * Serves a trace in real time with a model on an engine backend. `kvlab replay --target BACKEND`. If it is aborted after requests have
 * finished, it returns a report of those, with `interrupted`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, ExecutorError, Interrupted
 */
export async function serveTrace(trace: TraceChoice, options?: ServeOptions): Promise<TraceRun> {
  return (await import("./run/run-trace.ts")).serveTrace(trace, options);
}

/**
 * Replays a trace with every combination of plug-ins, rules and cache sizes, and with the bounds. `kvlab compare`. If it is aborted,
 * the report has the combinations that were complete, and `interrupted`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, Interrupted
 */
export async function compare(trace: TraceChoice, options?: CompareOptions): Promise<ReplayComparison> {
  return (await import("./compare/compare.ts")).compareReplays(trace, options);
}

/**
 * Bounds the hit ratios that any eviction policy can have in a clock-free replay, at several cache sizes, without a run
 * (docs/bounds.md). `kvlab compare` states the same bounds for its runs.
 *
 * @throws InputError, TraceError, Interrupted
 */
export async function offlineBounds(trace: TraceChoice, options?: OfflineBoundOptions): Promise<BoundAtSize[]> {
  return (await import("./bound/offline-bound.ts")).boundsOf(trace, options);
}

/**
 * Hit ratios by size of the cache (miss-ratio curves): LRU in one pass over the trace, other policies in one replay for each size
 * (docs/curve.md). `kvlab curve`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, Interrupted
 */
export async function curve(trace: TraceChoice, options?: CurveOptions): Promise<Curves> {
  return (await import("./curve/curves.ts")).hitRatioCurves(trace, options);
}

/**
 * Runs many configurations: in processes of this machine, on a Slurm cluster, or by workers that share a Redis; one result for each
 * (docs/sweep.md). `kvlab sweep`. Results that the folder has are not run again, also after an interruption.
 *
 * @throws InputError if an option is invalid, or the folder cannot be written; Interrupted
 */
export async function sweep(
  configurations: readonly SweepConfiguration[],
  options: SweepOptions,
): Promise<SweepReport> {
  return (await import("./sweep/sweep.ts")).sweep(configurations, options);
}

/**
 * Finds the cheapest GPUs, number of replicas, cache memory, preset, router and eviction policy that meet an SLO, by bisection over
 * simulations (docs/sizing.md). `kvlab size`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, Interrupted
 */
export async function size(trace: TraceChoice, options: SizeOptions): Promise<Sized> {
  return (await import("./size/size.ts")).sizeCluster(trace, options);
}

/**
 * Runs every combination in time, simulated or with an engine. `kvlab compare --target sim`. If it is aborted, the report has the
 * runs that were complete, and `interrupted`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, ExecutorError, Interrupted
 */
export async function compareServed(trace: TraceChoice, options: ServedComparisonOptions): Promise<ServedComparison> {
  return (await import("./compare/compare-served.ts")).compareServed(trace, options);
}

/**
 * Finds the first decision in which each combination diverges from the first one. `kvlab compare --first-difference`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, Interrupted
 */
export async function firstDifference(trace: TraceChoice, options: DifferenceOptions): Promise<FirstDifferences> {
  return (await import("./compare/first-difference.ts")).firstDifference(trace, options);
}

/**
 * Serves a trace with an engine, repeats the run in the simulator, and compares every decision; with `contents` also keys, values
 * and logits with recomputed ones. `kvlab verify`.
 *
 * @throws InputError, TraceError, PolicyError naming the plug-in, ExecutorError, Interrupted
 */
export async function verify(trace: TraceChoice, options?: VerifyOptions): Promise<Verified> {
  return (await import("./verify/verify.ts")).verify(trace, options);
}

/**
 * Measures the steps of an engine, or reads recorded ones, fits the simulator's cost model to them, and writes the cost model and a
 * plot of the residuals. `kvlab calibrate`.
 *
 * @throws InputError, ExecutorError, Interrupted
 */
export async function calibrate(options?: CalibrateOptions): Promise<Calibrated> {
  return (await import("./calibrate/calibrate.ts")).calibrate(options);
}

/**
 * Measures an engine's steps on a grid of shapes, and writes their times as an operator profile, for `--cost profile:FOLDER`.
 * `kvlab calibrate --profile`.
 *
 * @throws InputError, ExecutorError, Interrupted
 */
export async function calibrateProfile(options: CalibrateProfileOptions): Promise<ProfileDocument> {
  return (await import("./calibrate/calibrate-profile.ts")).calibrateProfile(options);
}

/**
 * Simulates the requests of a recorded run of vLLM, with nothing fitted to it, and compares their times. `kvlab fidelity`.
 *
 * @param trace a trace with token ids
 * @param record the folder of the run: requests.jsonl, meta.json, config.json
 * @throws InputError, TraceError, Interrupted
 */
export async function fidelity(trace: string, record: string, options?: FidelityOptions): Promise<FidelityReport> {
  return (await import("./fidelity/fidelity.ts")).fidelity(trace, record, options);
}

/** The operator profiles below a folder, by default those of the package. `kvlab profiles`. @throws InputError */
export async function listProfiles(folder?: string): Promise<readonly ProfileFolder[]> {
  return (await import("./profiles/catalogue.ts")).listProfiles(folder);
}

/**
 * Generates an output for each prompt with a model, one after the other; a prompt's prefix that an earlier prompt has is cached.
 * `kvlab generate`. If it is aborted, the report has what was generated.
 *
 * @param prompts the prompts, or a function that reads them once the options have been checked
 * @throws InputError, ExecutorError
 */
export async function generate(
  prompts: readonly string[] | (() => Promise<readonly string[]>),
  options?: GenerateOptions,
): Promise<Generated> {
  return (await import("./generate/generate.ts")).generate(prompts, options);
}

/**
 * Searches for cases in which implementations that must agree differ, shrinks and saves them. `kvlab fuzz`. If it is aborted, the
 * report has the cases that were tried.
 *
 * @throws InputError, ExecutorError
 */
export async function fuzz(options?: FuzzOptions): Promise<FuzzSearch> {
  return (await import("./fuzz/fuzz.ts")).fuzz(options);
}

/**
 * Searches for the smallest trace on which the first side has fewer hits than the second. `kvlab fuzz --beat`. If it is aborted, the
 * report has the cases that were tried.
 *
 * @throws InputError
 */
export async function beat(sides: readonly [SideChoice, SideChoice], options?: BeatOptions): Promise<BeatSearch> {
  return (await import("./fuzz/fuzz.ts")).beat(sides, options);
}

/**
 * Checks every law of its kind for a plug-in, and measures the cost of its operations. `kvlab check`. The plug-in is a file that
 * exports it, the name of a built-in eviction policy or index, or the plug-in itself. While it is checked, the process's clocks and
 * random sources are replaced by ones that record which of them the plug-in reads, so only one check may run at a time.
 *
 * @throws InputError if the plug-in cannot be loaded, or another check is running; Interrupted
 */
export async function checkPlugin(plugin: string | Plugins[PluginKind], options?: CheckOptions): Promise<Checked> {
  return (await import("./check/check.ts")).checkPlugin(plugin, options);
}

/**
 * Runs worked cases: operations on a part of a system, and the results that the system's own tests expect. `kvlab conformance`.
 * `paths` are case files or folders of them. A case with unsupported input or without expectations is skipped, never passed.
 *
 * @throws InputError if a file cannot be read as a case; Interrupted
 */
export async function runConformance(paths: string | readonly string[], control?: Control): Promise<Conformance> {
  return (await import("./conformance/conformance.ts")).runConformance(paths, control);
}

/**
 * Repeats a published measurement, simulated or with an engine, and compares the metrics. `kvlab experiment NAME`.
 *
 * @throws InputError, ExecutorError, Interrupted
 */
export async function runExperiment(name: string, options?: ExperimentOptions): Promise<ExperimentRun> {
  return (await import("./experiments/run-experiment.ts")).runExperiment(name, options);
}

/** The published measurements that `runExperiment` can repeat. `kvlab experiment`. */
export async function listExperiments(): Promise<ExperimentList> {
  return (await import("./experiments/run-experiment.ts")).listExperiments();
}

/**
 * Statistics of a trace: lengths in tokens, arrivals, sessions, and the share of blocks that repeat. `kvlab trace stats`.
 *
 * @throws InputError, TraceError naming file and line, Interrupted
 */
export async function traceStats(trace: TraceChoice, options?: TraceStatsOptions): Promise<DescribedTrace> {
  return (await import("./traces/trace-stats.ts")).traceStats(trace, options);
}

/**
 * Generates a trace and writes it to a file or a stream. `kvlab trace generate NAME`. The same options give the same file on
 * every machine.
 *
 * @returns the number of requests written
 * @throws InputError if an option is out of range, or the file exists or cannot be written; Interrupted, without a file
 */
export async function generateTrace(options: GenerateTraceOptions): Promise<{ readonly requests: number }> {
  return (await import("./traces/generate-trace.ts")).generateTrace(options);
}

/**
 * Fits a model to a trace and writes a trace that is drawn from it: the same lengths, arrivals and sharing, no content.
 * `kvlab trace generate --like FILE`. The report states how close it is.
 *
 * @throws InputError, TraceError naming file and line, Interrupted
 */
export async function likeTrace(trace: string, options: LikeTraceOptions): Promise<TraceLikeness> {
  return (await import("./traces/like-trace.ts")).likeTrace(trace, options);
}

/**
 * Converts a trace to another format, request by request: parquet, mooncake, token-ids, qwen-bailian or azure, selected by
 * the extension of the file or by `to`. `kvlab trace convert`. The result lists the columns that the format lacks.
 *
 * @throws InputError if the format lacks the trace's content or the file cannot be written; TraceError naming file and line;
 * Interrupted, without a file
 */
export async function convertTrace(
  paths: string | readonly string[],
  options: ConvertTraceOptions,
): Promise<WrittenTrace> {
  return (await import("./traces/convert-trace.ts")).convertTrace(paths, options);
}

/**
 * Writes a trace with salted content ids in place of its content; lengths and times are kept. `kvlab trace anonymize`.
 *
 * @throws InputError if the trace has no content or the file cannot be written; TraceError naming file and line;
 * Interrupted, without a file
 */
export async function anonymizeTrace(
  paths: string | readonly string[],
  options: AnonymizeTraceOptions,
): Promise<WrittenTrace> {
  return (await import("./traces/anonymize-trace.ts")).anonymizeTrace(paths, options);
}

/**
 * Downloads a public trace by its name in the catalogue, or from an address, and checks its SHA-256. `kvlab trace fetch NAME`. An
 * interrupted download is resumed by the next call.
 *
 * @throws InputError if there is no such trace, or it cannot be received, has another checksum, or cannot be written; Interrupted
 */
export async function fetchTrace(name: string, options?: FetchTraceOptions): Promise<FetchedTrace> {
  return (await import("./traces/fetch-trace.ts")).fetchTrace(name, options);
}

/** The public traces that `fetchTrace` downloads by name. `kvlab trace fetch`. */
export async function listPublicTraces(): Promise<readonly PublicTrace[]> {
  return (await import("./traces/fetch-trace.ts")).listPublicTraces();
}

/**
 * Checks whether this machine can run kvlab: Node.js, memory, libraries, and each engine backend with a small model. `kvlab doctor`.
 *
 * @throws InputError if options contradict each other; Interrupted
 */
export async function doctor(options?: DoctorOptions): Promise<{ readonly report: DoctorDocument }> {
  return (await import("./doctor/doctor.ts")).doctor(options);
}

/** All built-in plug-ins, presets, reuse rules, models and GPUs. `kvlab policies`. */
export async function listPlugins(): Promise<PluginList> {
  return (await import("./plugin-list.ts")).listPlugins();
}
