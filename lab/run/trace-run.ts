import type { TimeSeries } from "../../core/serving/time-series.ts";
import type { BackendName } from "../../engine/backends.ts";
import type { Control } from "../control.ts";
import type { Input, TraceReading } from "../input.ts";
import type { RunReport } from "../output/report.ts";
import type { Capacity } from "./capacity.ts";
import type { PartChoice, Parts } from "./configuration.ts";
import type { RunResult } from "./run.ts";
import type { SimulationOptions } from "./simulation-options.ts";
import type { Target } from "./target.ts";

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
  /** Explains the hits and misses of these requests, by their numbers in the trace. */
  readonly explain?: readonly number[];
  /** Explains this number of requests with the most missed tokens that had been cached, and lists as many costly evictions. */
  readonly explainTop?: number;
  /** Counts the ages of blocks at hits and evictions, their lifetimes and their hits. */
  readonly residency?: boolean;
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
  readonly result: RunResult;
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

/** A finished run of a trace that was read batch by batch: without the trace and the results of its requests. */
export interface StreamedRun extends Omit<TraceRun, "input" | "result"> {
  readonly traceName: string;
  /** The trace has no content, so that nothing can be found again. */
  readonly lengthsOnly: boolean;
}

/** The options of a run on any target. */
export type TargetOptions = TraceRunOptions & SimulationOptions & { readonly target: Target };
