import type { StepLoad, StepLoadExtension } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";

/**
 * How long a step takes. A pure function of the load (but for `recorded`, which goes through a list), in whole nanoseconds,
 * at least 1: time never stands still.
 */
export interface CostModel {
  /** "roofline", "fitted", "recorded", … */
  readonly name: string;
  /** Layers with sliding-window attention see so many tokens; undefined if none has it. */
  readonly windowTokens?: number | undefined;
  /** Loads that depend on the engine's backend, if step times depend on them. */
  readonly calls?: StepLoadExtension | undefined;
  /** It goes through a list: it must be asked for each step once, in their order. */
  readonly inOrder?: true;
  stepNs(load: Readonly<StepLoad>): Nanos;
}
