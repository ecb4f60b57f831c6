import type { Nanos } from "../../core/trace.ts";

/**
 * What a step's duration can depend on, summed over its sequences. A sequence that computes tokens `[from, from + n)` reads
 * the keys and values of `from + n` tokens, and its queries meet `n · from + n (n + 1) / 2` keys. All are integers.
 */
export interface StepLoad {
  /** Sequences in the step ... */
  sequences: number;
  /** ... of which so many get logits: those that generate a token. */
  logits: number;
  /** Tokens computed: of prompts (or again after a preemption), and of answers, one each. */
  prefillTokens: number;
  decodeTokens: number;
  /** Sequences that compute tokens of prompts. */
  prefillSequences: number;
  /** Tokens whose keys and values are read, by prompts and by answers. */
  prefillContextTokens: number;
  decodeContextTokens: number;
  /** Pairs of query and key in prompts, under the causal mask. (An answer's token has as many as tokens are read.) */
  prefillPairs: number;
  /** The same three in layers that see no further back than the model's `windowTokens`; equal to the others without. */
  prefillWindowTokens: number;
  decodeWindowTokens: number;
  prefillWindowPairs: number;
  /** Blocks copied on the device (copy-on-write), and tokens moved between it and the host. */
  copiedBlocks: number;
  swappedTokens: number;
}

/**
 * How long a step takes. A pure function of the load (but for `recorded`, which goes through a list), in whole nanoseconds,
 * at least 1: time never stands still.
 */
export interface CostModel {
  /** "roofline", "fitted", "recorded", … */
  readonly name: string;
  /** Layers with sliding-window attention see so many tokens; undefined if none has it. */
  readonly windowTokens?: number | undefined;
  /** It goes through a list: it must be asked for each step once, in their order. */
  readonly inOrder?: true;
  stepNs(load: Readonly<StepLoad>): Nanos;
}

/** An empty step, to be filled. */
export function noLoad(): StepLoad {
  return {
    sequences: 0,
    logits: 0,
    prefillTokens: 0,
    decodeTokens: 0,
    prefillSequences: 0,
    prefillContextTokens: 0,
    decodeContextTokens: 0,
    prefillPairs: 0,
    prefillWindowTokens: 0,
    decodeWindowTokens: 0,
    prefillWindowPairs: 0,
    copiedBlocks: 0,
    swappedTokens: 0,
  };
}
