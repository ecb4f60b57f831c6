import type { Curve } from "./curve.ts";
import type { Surface } from "./surface.ts";

/** The layers of dense.csv whose time depends on the tokens of a step, and how often a transformer layer calls each. */
export const layerCalls = {
  layernorm: 2,
  qkv_proj: 1,
  qk_norm: 1,
  rotary_emb: 1,
  o_proj: 1,
  gate_up_proj: 1,
  act_fn: 1,
  down_proj: 1,
  dense_layer: 1,
} as const;

/** All dense layers of a step, divided by the number of transformer layers, of an engine whose operators are not timed one by one. */
export const denseLayer = "dense_layer" satisfies keyof typeof layerCalls;

/** The layers that a step calls once, in the first or in the last stage of a pipeline. */
export const stepCalls = [
  ["embedding", "isFirst"],
  ["final_layernorm", "isLast"],
] as const;

/** Measured times of the operators of one model on one device, at one degree of tensor parallelism. All in nanoseconds. */
export interface OperatorProfile {
  /** "rtx4090-llama-3.1-8b/tp1". */
  readonly name: string;
  /** By name of the layer, the time of one call by the tokens of the step. */
  readonly dense: ReadonlyMap<string, Curve>;
  /** Attention of one layer. */
  readonly attention: Surface;
  /**
   * Decodes of unequal contexts take longer than as many of the mean context: by this share of the difference to as many of the
   * longest context. 0 if it was not measured.
   */
  readonly skew: number;
  /** "lm_head" and "sampler" by sequences. */
  readonly perSequence: ReadonlyMap<string, Curve>;
  /** Whether steps are padded to the batch sizes of vLLM's CUDA graphs; absent: they are. */
  readonly padded?: boolean | undefined;
  /** The experts of one layer by number of activated experts: time by tokens. Absent: no experts. */
  readonly experts?: ExpertTimes | undefined;
}

export interface ExpertTimes {
  /** Numbers of activated experts, ascending, and for each the time by tokens. */
  readonly activated: readonly number[];
  readonly byTokens: readonly Curve[];
}
