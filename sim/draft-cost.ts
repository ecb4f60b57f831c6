import type { StepPlan } from "../core/replica/step.ts";
import { noLoad, type StepLoad } from "../core/serving/step-load.ts";
import type { Nanos } from "../core/trace/trace.ts";
import type { CostModel } from "./cost/cost-model.ts";

/** The time of one draft token of all sequences: a share of the target model's step with the same decodes, or a cost model. */
export type DraftCost = { readonly share: number } | { readonly cost: CostModel };

/**
 * Time for which the draft model runs before the step: one pass per draft token, in which each sequence that has drafts computes
 * one token. Prefill of the draft model is not counted.
 */
export class DraftTime {
  readonly #share: number;
  readonly #cost: CostModel;
  readonly #windowTokens: number;
  readonly #load: StepLoad = noLoad();

  constructor(draft: DraftCost, target: CostModel) {
    this.#share = "share" in draft ? draft.share : 1;
    this.#cost = "share" in draft ? target : draft.cost;
    this.#windowTokens = this.#cost.windowTokens ?? Number.POSITIVE_INFINITY;
  }

  /** Whole nanoseconds; 0 if no sequence has drafts. */
  draftNs({ items, count }: StepPlan): Nanos {
    const load = this.#load;
    let passes = 0;
    let sequences = 0;
    load.decodeContextTokens = load.decodeWindowTokens = load.longestDecodeTokens = 0;
    for (let i = 0; i < count; i++) {
      const { sequence, from } = items[i];
      if (sequence.draftTokens === 0) continue;
      sequences++;
      passes = Math.max(passes, sequence.draftTokens);
      load.decodeContextTokens += from + 1;
      load.longestDecodeTokens = Math.max(load.longestDecodeTokens, from + 1);
      load.decodeWindowTokens += Math.min(from + 1, this.#windowTokens);
    }
    if (passes === 0) return 0;
    load.sequences = load.decodeTokens = load.logits = sequences;
    return Math.round(passes * this.#share * this.#cost.stepNs(load));
  }
}
