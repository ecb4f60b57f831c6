import type { BandAxis, Range } from "../compare/comparison.ts";
import type { Metric, Ratios } from "../output/hit-ratios.ts";
import type { TraceReport } from "../output/report.ts";

/** Hit ratios by size of the cache. */
export interface Curve {
  /** Preset, if presets are compared. */
  readonly preset?: string;
  readonly index: string;
  /** Name of the eviction policy; `bound` for the offline bound. */
  readonly eviction: string;
  /** Reuse rules that were given, as NAME=VALUE. */
  readonly rules: readonly string[];
  /** Random seed, if several are compared. */
  readonly seed?: number;
  /** Tokens of its blocks, if it is a preset whose blocks have another size than those of the document. */
  readonly blockTokens?: number;
  /** The hit ratios are those of replays; of a bound: it is the exact optimum of the relaxed problem of docs/bounds.md. */
  readonly exact: boolean;
  /** `one-pass`: all sizes in one pass over the trace or the sample; `replay`: one replay for each size. */
  readonly method: "one-pass" | "replay" | "bound";
  /** In ascending order of size. */
  readonly points: readonly CurvePoint[];
}

/** Curves that differ only in the order of ties or in the seed, which are shown as one. */
export interface CurveBand extends Pick<Curve, "preset" | "index" | "eviction" | "rules"> {
  /** Numbers of the curves in the document, from 0. */
  readonly curves: readonly number[];
  /** In what they differ; empty for a single curve. */
  readonly over: readonly BandAxis[];
  /** By size: the least and the largest hit ratio by the document's metric; of a sample, with their intervals. */
  readonly points: readonly ({ readonly blocks: number } & Range)[];
}

/** The size of a sample. Groups are the requests of a session, and those that share content that is not common to most requests. */
export interface SampleReport {
  readonly rate: number;
  readonly requests: number;
  readonly groups: number;
  readonly ofGroups: number;
  /** Prompt tokens of the sample ÷ those of the trace: the share by which caches are smaller. */
  readonly tokenShare: number;
  /** Blocks of content that is common to so many requests that it is not scaled: estimates of sizes near it are biased. */
  readonly commonBlocks: number;
}

/** The document that `kvlab curve --json` prints: schema curve/1. */
export interface CurveDocument {
  readonly schema: "curve/1";
  readonly kvlab: string;
  readonly trace: TraceReport;
  readonly blockTokens: number;
  /** Distinct blocks of the prompts; estimated for a sample. */
  readonly distinctBlocks: number;
  readonly metric: Metric;
  readonly warmup: number;
  readonly seed: number;
  /** The sample, if the curves are estimated. */
  readonly sample?: SampleReport;
  readonly curves: readonly Curve[];
  /** All curves in bands, if a band has several. */
  readonly bands?: readonly CurveBand[];
}

/** A hit ratio at one size of the cache. */
export interface CurvePoint {
  /** In blocks of the document's size. */
  readonly blocks: number;
  /** Hit ratios by the names of a replay's report; of a bound only `block`, `token` and the metric of the document. */
  readonly hitRatio: Ratios;
  /**
   * The metric of the document lies between these: both are its value where it is exact; for a sample they are the limits of a 95 %
   * interval.
   */
  readonly low: number;
  readonly high: number;
  /** Requests that are longer than the cache; of a sample those that are longer than its smaller cache. Not for a bound. */
  readonly refusedRequests?: number;
}
