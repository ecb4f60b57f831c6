import type { KvCache } from "../cache/kv-cache.ts";
import type { Sequence } from "../cache/request.ts";
import type { Nanos } from "../trace/trace.ts";
import { StepPlan } from "./step.ts";

/**
 * The batches of a pipeline that have started and not ended. A sequence that generates a token in one of them is not running, so
 * that no other batch contains it. A chunk of a prompt has no result to wait for: batches pass the stages in order, so that the next
 * chunk finds its KV. Its sequence remains running.
 *
 * Source: vLLM v1, `EngineCore.step_with_batch_queue` in vllm/v1/engine/core.py and `Scheduler._update_after_schedule`.
 */
export class BatchesInFlight {
  /** Most batches in flight: the stages of the pipeline. */
  readonly most: number;
  readonly #cache: KvCache;
  readonly #sequences = new Set<Sequence>();

  constructor(most: number, cache: KvCache) {
    this.most = most;
    this.#cache = cache;
  }

  /** Sequences that are not running because they are in a batch. */
  get count(): number {
    return this.#sequences.size;
  }

  sequences(): Iterable<Sequence> {
    return this.#sequences;
  }

  /** The batch starts: returns a copy of its plan, because the plan is reused. */
  start(plan: StepPlan, running: Sequence[], now: Nanos): StepPlan {
    const batch = new StepPlan([]);
    batch.swappedTokens = plan.swappedTokens;
    for (let i = 0; i < plan.count; i++) {
      const { sequence, from, tokens, prefill, generate } = plan.items[i];
      batch.add(sequence, from, tokens, prefill, generate);
      // Blocks are copied before the batch.
      sequence.blocks.endCopy();
      if (generate === 0) this.#cache.computed(sequence, prefill, now);
      else this.#sequences.add(sequence);
    }
    let kept = 0;
    for (const sequence of running) if (!this.#sequences.has(sequence)) running[kept++] = sequence;
    running.length = kept;
    return batch;
  }

  /** The batch ends: its sequences run again, in the order of their admission. */
  end({ items, count }: StepPlan, running: Sequence[]): void {
    for (let i = 0; i < count; i++) {
      const { sequence, generate } = items[i];
      if (generate === 0) continue;
      this.#sequences.delete(sequence);
      let at = running.length;
      while (at > 0 && running[at - 1].admission > sequence.admission) at--;
      running.splice(at, 0, sequence);
    }
  }
}
