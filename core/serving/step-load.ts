import type { StepPlan } from "../replica/step.ts";

/**
 * The quantities that a step's duration depends on, summed over its sequences, as integers. A sequence that computes tokens
 * `[from, from + n)` reads the KV of `from + n` tokens, in `n · from + n (n + 1) / 2` query-key pairs.
 */
export interface StepLoad {
  sequences: number;
  /** Tokens for which logits are computed: one of each sequence that generates an output token, and its draft tokens. */
  logits: number;
  /** Tokens computed in prefill (recomputation after a preemption included) and in decode, one per sequence and its draft tokens. */
  prefillTokens: number;
  decodeTokens: number;
  /** Sequences in prefill. */
  prefillSequences: number;
  /** Tokens whose KV is read, in prefill and in decode. */
  prefillContextTokens: number;
  decodeContextTokens: number;
  /** The largest context of a decode. */
  longestDecodeTokens: number;
  /** Query-key pairs of prefill under the causal mask. (A decode has one query, so its pairs equal its context tokens.) */
  prefillPairs: number;
  /** The same three in sliding-window layers (`windowTokens`): equal to `prefillContextTokens` … without a window. */
  prefillWindowTokens: number;
  decodeWindowTokens: number;
  prefillWindowPairs: number;
  /**
   * Set by the backend's `StepLoadExtension`, else 0. `calls`: calls of the model. The others are sums over calls, padding
   * included: gathered context tokens; gathered context tokens beyond the first 1,024 of a call, which cost more; query-key
   * pairs.
   */
  calls: number;
  paddedContextTokens: number;
  farContextTokens: number;
  paddedPairs: number;
  /** Blocks copied on the device (copy-on-write); tokens swapped between device and host. */
  copiedBlocks: number;
  swappedTokens: number;
}

/** The loads that a `StepLoadExtension` sets; columns of steps.parquet and coefficients of cost files have their names. */
export const extensionLoads = [
  "calls",
  "paddedContextTokens",
  "farContextTokens",
  "paddedPairs",
] as const satisfies (keyof StepLoad)[];

/**
 * The loads of a step that depend on how a backend divides and pads it. Only the backend interprets the rules: a simulator of the
 * backend computes its loads with the same object.
 */
export interface StepLoadExtension {
  /** JSON from which the backend restores this object, written to reports and cost files as `calls`. */
  readonly rules: object;
  /**
   * The loads that it sets: in a fit they replace the totals; a load is fitted only if some step has at least `least` of it.
   */
  readonly loads: readonly {
    readonly name: (typeof extensionLoads)[number];
    readonly least: number;
    /** Unit of the coefficient, in words. */
    readonly meaning: string;
  }[];
  /** Sets `loads` of `load` to those of the plan. */
  measure(load: StepLoad, plan: StepPlan): void;
}

/** Restores an extension from its rules. @throws InputError that begins with `where` */
export type RestoreExtension = (rules: unknown, where: string) => StepLoadExtension;

/** Decoding sequences. With draft tokens each of them computes several tokens, which read its context once. */
export function decodeSequences({ decodeTokens, sequences, prefillSequences }: Readonly<StepLoad>): number {
  return sequences > prefillSequences ? Math.min(decodeTokens, sequences - prefillSequences) : decodeTokens;
}

/** The load of an empty step. */
export function noLoad(): StepLoad {
  return {
    sequences: 0,
    logits: 0,
    prefillTokens: 0,
    decodeTokens: 0,
    prefillSequences: 0,
    prefillContextTokens: 0,
    decodeContextTokens: 0,
    longestDecodeTokens: 0,
    prefillPairs: 0,
    prefillWindowTokens: 0,
    decodeWindowTokens: 0,
    prefillWindowPairs: 0,
    calls: 0,
    paddedContextTokens: 0,
    farContextTokens: 0,
    paddedPairs: 0,
    copiedBlocks: 0,
    swappedTokens: 0,
  };
}

/** Longer than any context: a window that excludes nothing. */
const noWindow = 2 ** 30;

/** Query-key pairs of `tokens` queries from position `from` on, each of which attends to itself and all positions before. */
const causalPairs = (from: number, tokens: number) => tokens * from + (tokens * (tokens + 1)) / 2;

/** The same with a window: a query attends to the last `window` positions, itself included. */
function windowPairs(from: number, tokens: number, window: number): number {
  const whole = Math.max(0, Math.min(tokens, window - from));
  return causalPairs(from, whole) + (tokens - whole) * window;
}

/** The load of a step that computes only tokens `[from, to)` of one prompt. */
export function prefillLoad(from: number, to: number, windowTokens = noWindow): StepLoad {
  const tokens = to - from;
  return {
    ...noLoad(),
    sequences: 1,
    prefillTokens: tokens,
    prefillSequences: 1,
    prefillContextTokens: to,
    prefillPairs: causalPairs(from, tokens),
    prefillWindowTokens: Math.min(to, windowTokens + tokens - 1),
    prefillWindowPairs: windowPairs(from, tokens, windowTokens),
  };
}

/** Fills `load` with the load of a plan. `windowTokens` as in `StepRunner`. */
export function measure(load: StepLoad, plan: StepPlan, windowTokens = noWindow): void {
  const { items, count } = plan;
  let logits = 0;
  let prefillSequences = 0;
  let prefillContextTokens = 0;
  let decodeContextTokens = 0;
  let longestDecodeTokens = 0;
  let prefillPairs = 0;
  let prefillWindowTokens = 0;
  let decodeWindowTokens = 0;
  let prefillWindowPairs = 0;
  for (let i = 0; i < count; i++) {
    const { from, tokens, prefill, generate } = items[i];
    const context = from + tokens;
    // Logits of every draft token are computed to verify it.
    if (generate > 0) logits += prefill || tokens === 0 ? 1 : tokens;
    // A sequence whose prompt has stored logits computes nothing.
    if (tokens === 0) continue;
    if (prefill) {
      prefillSequences++;
      prefillContextTokens += context;
      prefillPairs += causalPairs(from, tokens);
      prefillWindowTokens += Math.min(context, windowTokens + tokens - 1);
      prefillWindowPairs += windowPairs(from, tokens, windowTokens);
    } else {
      decodeContextTokens += context;
      if (context > longestDecodeTokens) longestDecodeTokens = context;
      decodeWindowTokens += context < windowTokens ? context : windowTokens;
    }
  }
  load.sequences = count;
  load.logits = logits;
  load.prefillTokens = plan.prefillTokens;
  load.decodeTokens = plan.decodeTokens;
  load.prefillSequences = prefillSequences;
  load.prefillContextTokens = prefillContextTokens;
  load.decodeContextTokens = decodeContextTokens;
  load.longestDecodeTokens = longestDecodeTokens;
  load.prefillPairs = prefillPairs;
  load.prefillWindowTokens = prefillWindowTokens;
  load.decodeWindowTokens = decodeWindowTokens;
  load.prefillWindowPairs = prefillWindowPairs;
  load.copiedBlocks = plan.copies.length;
  load.swappedTokens = plan.swappedTokens;
}
