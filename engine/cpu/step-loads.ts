import type { StepPlan } from "../../core/replica/step.ts";
import type { StepLoad, StepLoadExtension } from "../../core/serving/step-load.ts";
import { type CallRules, cheapestCalls } from "./call-rules.ts";

/**
 * Gathered context tokens of a call up to this number cost less than further ones, which are not in the processor's caches. The
 * limit is not sharp; fitted cost files depend on it (docs/decisions.md).
 */
export const nearContextTokens = 1024;

/** The calls of a step and their padding, as `CallPlanner` divides steps. */
export class CpuStepLoads implements StepLoadExtension {
  readonly rules: CallRules;
  readonly loads = [
    { name: "calls", least: 1, meaning: "each call of the model, of which a step may have several" },
    { name: "paddedContextTokens", least: 1, meaning: "each context token of a sequence, padding included" },
    {
      name: "farContextTokens",
      least: nearContextTokens,
      meaning: `each gathered context token after the first ${nearContextTokens.toLocaleString("en-US")} of a call, in addition`,
    },
    { name: "paddedPairs", least: 1, meaning: "each pair of a query and a key, padding included" },
  ] as const;

  constructor(rules: CallRules) {
    this.rules = rules;
  }

  /**
   * Chunks of one prompt are in successive calls. The order of calls that depend on blocks computed in the same step is not
   * modelled: a plan does not state which sequences share these blocks.
   */
  measure(load: StepLoad, { items, count }: StepPlan): void {
    const { longestQuery } = this.rules;
    const queries: number[] = [];
    const contexts: number[] = [];
    const waves: number[][] = [];
    for (let i = 0; i < count; i++) {
      const { from, tokens } = items[i];
      for (let wave = 0, done = 0; done < tokens; wave++) {
        const query = Math.min(longestQuery, tokens - done);
        done += query;
        (waves[wave] ??= []).push(queries.length);
        queries.push(query);
        contexts.push(from + done);
      }
    }
    load.calls = load.paddedContextTokens = load.farContextTokens = load.paddedPairs = 0;
    for (const wave of waves)
      for (const call of cheapestCalls(this.rules, queries, contexts, wave)) {
        const maxOf = (of: readonly number[]) => call.reduce((largest, sequence) => Math.max(largest, of[sequence]), 0);
        const padded = call.length * maxOf(contexts);
        load.calls++;
        load.paddedContextTokens += padded;
        load.farContextTokens += Math.max(0, padded - nearContextTokens);
        load.paddedPairs += padded * maxOf(queries);
      }
  }
}
