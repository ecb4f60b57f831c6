import type { StepLoad, StepLoadExtension } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";

/** Successive steps that decode the same sequences, prepared so that a step costs little time to compute. */
export interface DecodeSteps {
  /** Duration of the step with these `decodeContextTokens`, `longestDecodeTokens` and `decodeWindowTokens`. */
  ns(contextTokens: number, longestTokens: number, windowTokens: number): Nanos;
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
   * Durations of steps that differ from `load` in their contexts only, equal to those of `stepNs`. `load` has decodes and nothing
   * else. The result is valid until the next call. Absent: `stepNs` is called for each step.
   */
  decodeSteps?(load: Readonly<StepLoad>): DecodeSteps;
  /** Duration of a step of several replicas together, in whole nanoseconds; absent: that of the slowest one. */
  togetherNs?(loads: readonly Readonly<StepLoad>[]): Nanos;
}
