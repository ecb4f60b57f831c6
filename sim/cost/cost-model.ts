import type { StepLoad, StepLoadExtension } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";

/**
 * Successive steps that decode the same sequences. Each step reads one token more per sequence than the step before it:
 * `decodeContextTokens` grows by `decodeTokens`, `longestDecodeTokens` by 1 and `decodeWindowTokens` by `growing`.
 */
export interface DecodeRun {
  /** The load of the step before the first one: decodes and nothing else. */
  readonly load: Readonly<StepLoad>;
  /** Sequences whose window is not full; without a window all sequences. */
  readonly growing: number;
  /** Start of the first step. */
  readonly startNs: Nanos;
  /** The run ends before the first step that would end after this time. */
  readonly horizonNs: Nanos;
  /** Most steps. */
  readonly most: number;
  /** Output: the end of each step. */
  readonly endsNs: Float64Array;
}

/** Times of the stages of a pipeline, in whole nanoseconds. */
export interface PipelineStages {
  /** Number of stages: most batches in flight. */
  readonly count: number;
  /** Time of one stage for a step with this load, at least 1. */
  stageNs(stage: number, load: Readonly<StepLoad>): Nanos;
  /** Time between the end of a stage and the arrival of its results at the next one. */
  transferNs(load: Readonly<StepLoad>): Nanos;
}

/**
 * The duration of a step: a pure function of its load (except for `recorded`, which reads a list), in whole nanoseconds, at least
 * 1, so that every step advances the time.
 */
export interface CostModel {
  /** "roofline", "fitted", "recorded", … */
  readonly name: string;
  /** The attention window of sliding-window layers; undefined if no layer has one. */
  readonly windowTokens?: number | undefined;
  /** Loads that depend on the engine's backend, if step times depend on them. */
  readonly calls?: StepLoadExtension | undefined;
  /** Pipeline parallelism; absent: one stage. */
  readonly stages?: PipelineStages | undefined;
  /** Reads durations from a list: `stepNs` must be called once per step, in the order of the steps. */
  readonly inOrder?: true;
  /** Duration of a step with this load, in whole nanoseconds, at least 1. */
  stepNs(load: Readonly<StepLoad>): Nanos;
  /**
   * Writes the ends of the steps to `run.endsNs` and returns their number; the durations are those of `stepNs`. A run is computed
   * in one call because a simulation spends most of its steps there. Absent: `stepNs` is called for each step.
   */
  decodeEnds?(run: DecodeRun): number;
  /** Duration of a step of several replicas together, in whole nanoseconds; absent: that of the slowest one. */
  togetherNs?(loads: readonly Readonly<StepLoad>[]): Nanos;
}
