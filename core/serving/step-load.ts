import type { StepPlan } from "../replica/step.ts";

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
  /**
   * Of an engine that pads, if its `CallRules` are known, else 0: calls of the model, and over them the tokens whose keys and values
   * are gathered and the pairs of query and key that are computed, padding included. Of a call's gathered tokens, those after the
   * first `nearContextTokens` are far.
   */
  calls: number;
  paddedContextTokens: number;
  farContextTokens: number;
  paddedPairs: number;
  /** Blocks copied on the device (copy-on-write), and tokens moved between it and the host. */
  copiedBlocks: number;
  swappedTokens: number;
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
    calls: 0,
    paddedContextTokens: 0,
    farContextTokens: 0,
    paddedPairs: 0,
    copiedBlocks: 0,
    swappedTokens: 0,
  };
}

/** No window: every layer sees all. */
const noWindow = 2 ** 30;

/** Query-key pairs of `tokens` queries, the first of which is at `from` and sees itself and what is before it. */
const causalPairs = (from: number, tokens: number) => tokens * from + (tokens * (tokens + 1)) / 2;

/** The same where a query sees only the last `window` tokens, itself included. */
function windowPairs(from: number, tokens: number, window: number): number {
  const whole = Math.max(0, Math.min(tokens, window - from));
  return causalPairs(from, whole) + (tokens - whole) * window;
}

/** Fills `load` with what a step computes. `windowTokens` as the cost model has it. */
export function measure(load: StepLoad, plan: StepPlan, windowTokens = noWindow): void {
  const { items, count } = plan;
  let logits = 0;
  let prefillSequences = 0;
  let prefillContextTokens = 0;
  let decodeContextTokens = 0;
  let prefillPairs = 0;
  let prefillWindowTokens = 0;
  let decodeWindowTokens = 0;
  let prefillWindowPairs = 0;
  for (let i = 0; i < count; i++) {
    const { from, tokens, prefill, generate } = items[i];
    const context = from + tokens;
    if (generate > 0) logits++;
    // Whose logits are stored computes nothing.
    if (tokens === 0) continue;
    if (prefill) {
      prefillSequences++;
      prefillContextTokens += context;
      prefillPairs += causalPairs(from, tokens);
      prefillWindowTokens += Math.min(context, windowTokens + tokens - 1);
      prefillWindowPairs += windowPairs(from, tokens, windowTokens);
    } else {
      decodeContextTokens += context;
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
  load.prefillPairs = prefillPairs;
  load.prefillWindowTokens = prefillWindowTokens;
  load.decodeWindowTokens = decodeWindowTokens;
  load.prefillWindowPairs = prefillWindowPairs;
  load.copiedBlocks = plan.copies.length;
  load.swappedTokens = plan.swappedTokens;
}
