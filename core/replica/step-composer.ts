import { hole } from "../cache/block-table.ts";
import type { KvCache } from "../cache/kv-cache.ts";
import type { Sequence } from "../cache/request.ts";
import type { Nanos } from "../trace/trace.ts";
import { acceptedTokens, type Speculation } from "./speculation.ts";
import type { StepPlan } from "./step.ts";

/** Adds sequences to the step that is being planned. Their blocks are allocated already, except those of draft tokens. */
export class StepComposer {
  readonly #plan: StepPlan;
  readonly #cache: KvCache;
  readonly #skip: boolean;
  /** With `generation: "skip"` and `evict-amount=needed`: blocks for an output are allocated after the prompt is published. */
  readonly growsAfterPrefill: boolean;
  readonly speculation: Speculation | undefined;
  /** Draft tokens verified and accepted so far, and the decodes that verified them. */
  readonly drafts = { tokens: 0, accepted: 0, decodes: 0 };

  /** `skip`: a request finishes with the step that computes its prompt. */
  constructor(plan: StepPlan, cache: KvCache, skip: boolean, speculation: Speculation | undefined) {
    this.#plan = plan;
    this.#cache = cache;
    this.#skip = skip;
    this.growsAfterPrefill = skip && cache.rules["evict-amount"] === "needed";
    this.speculation = speculation;
  }

  /** Adds at most `limit` of the tokens of a sequence that are neither computed nor restored. */
  add(sequence: Sequence, limit: number, now: Nanos): void {
    const { restoredTokens } = sequence;
    const from = sequence.computedTokens + restoredTokens;
    const known = sequence.knownTokens;
    const prefill = from < known - 1 || sequence.generatedTokens === 0;
    let tokens = Math.min(limit, known - from);
    let generate = from + tokens === known ? 1 : 0;
    if (generate > 0 && this.#skip) {
      generate = Math.max(1, sequence.request.outputTokens);
      if (!this.growsAfterPrefill && this.#extendOutput(sequence, generate - 1, now)) tokens += generate - 1;
    }
    sequence.stepTokens = restoredTokens + tokens;
    sequence.restoredTokens = 0;
    sequence.inStep = true;
    this.#cache.scheduled(sequence, now);
    this.#plan.add(sequence, from, tokens, prefill, generate);
  }

  /**
   * Fast path for an output token that neither begins nor fills a block, so that no block is allocated or published. Returns
   * false if the token is of another kind; nothing has changed then.
   */
  addOutputToken(sequence: Sequence): boolean {
    const { computedTokens, generatedTokens, request } = sequence;
    const { blockTokens, usesCopyOnWrite } = this.#cache;
    const filled = computedTokens % blockTokens;
    if (filled === 0 || filled + 1 === blockTokens || generatedTokens === 0 || this.#skip) return false;
    if (computedTokens + 1 !== request.inputTokens + generatedTokens) return false;
    if (usesCopyOnWrite && sequence.blocks.copyAt !== hole) return false;
    sequence.stepTokens = 1;
    sequence.inStep = true;
    this.#plan.add(sequence, computedTokens, 1, false, 1);
    return true;
  }

  /**
   * Adds a decode with draft tokens. Returns false if the sequence does not decode, if it may generate only one more token, or if
   * there are too few blocks for the drafts.
   */
  addDrafts(sequence: Sequence, speculation: Speculation, now: Nanos): boolean {
    const { request, computedTokens, generatedTokens, knownTokens } = sequence;
    if (generatedTokens === 0 || computedTokens + 1 !== knownTokens) return false;
    const drafts = Math.min(speculation.tokens, request.maxOutputTokens - generatedTokens - 1);
    if (drafts <= 0 || !this.#cache.extend(sequence, knownTokens + drafts, now)) return false;
    const accepted = acceptedTokens(speculation, request.id, generatedTokens, drafts);
    sequence.stepTokens = 1;
    sequence.draftTokens = drafts;
    sequence.inStep = true;
    this.#cache.scheduled(sequence, now);
    const generate = Math.min(accepted + 1, Math.max(1, request.outputTokens - generatedTokens));
    this.#plan.add(sequence, computedTokens, 1 + drafts, false, generate);
    return true;
  }

  /** The step has verified the draft tokens of the sequence: `generate` tokens are kept, the last of them without KV. */
  verify(sequence: Sequence, generate: number, now: Nanos): void {
    this.drafts.tokens += sequence.draftTokens;
    this.drafts.accepted += generate - 1;
    this.drafts.decodes++;
    sequence.stepTokens = generate;
    this.#cache.verified(sequence, now);
  }

  /** Computes `count` output tokens of a sequence whose prompt has been computed. */
  addOutput(sequence: Sequence, count: number, now: Nanos): void {
    if (count === 0 || !this.#extendOutput(sequence, count, now)) return;
    sequence.stepTokens = count;
    this.#cache.scheduled(sequence, now);
    this.#cache.computed(sequence, false, now);
  }

  /** Allocates blocks for the KV of `count` output tokens if the rules cache it; false if there are too few. */
  #extendOutput(sequence: Sequence, count: number, now: Nanos): boolean {
    const cache = this.#cache;
    return cache.rules["cache-generated"] === "true" && cache.extend(sequence, sequence.knownTokens + count, now, true);
  }

  /** Removes a sequence from the step; returns the others that reference blocks that it computes there, in their order. */
  remove(sequence: Sequence): readonly Sequence[] {
    this.#plan.remove(sequence);
    const { items, count } = this.#plan;
    const others = items.slice(0, count).map((item) => item.sequence);
    return others.filter((other) => this.#cache.dependsOn(other, sequence));
  }
}
