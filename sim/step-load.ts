import type { StepPlan } from "../core/step.ts";
import type { StepLoad } from "./cost/cost-model.ts";

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
