import type { BlockCopy } from "../cache/block-refs.ts";
import type { Sequence } from "../cache/request.ts";
import type { Nanos } from "../trace/trace.ts";

/** The work of one sequence in a step. Objects are reused. */
export interface StepItem {
  sequence: Sequence;
  /** Tokens [from, from + tokens) are computed; the KV of those before is in the block table. */
  from: number;
  tokens: number;
  /** Whether these are prompt tokens, or output tokens that are recomputed after a preemption. */
  prefill: boolean;
  /** Output tokens: 0 before the end of the prompt, then 1; more with accepted draft tokens or `generation: "skip"`. */
  generate: number;
}

/** One step of the model, composed by the scheduler and run by an executor. The block tables are in the sequences. */
export class StepPlan {
  /** The first `count` items are in this step. */
  readonly items: StepItem[] = [];
  count = 0;
  prefillTokens = 0;
  /** Draft tokens included. */
  decodeTokens = 0;
  generatedTokens = 0;
  /** Tokens that are swapped out or in before the step runs. */
  swappedTokens = 0;
  readonly copies: BlockCopy[];

  constructor(copies: BlockCopy[]) {
    this.copies = copies;
  }

  get isEmpty(): boolean {
    return this.count === 0;
  }

  /** Adds tokens `from .. from + tokens` of a sequence. */
  add(sequence: Sequence, from: number, tokens: number, prefill: boolean, generate: number): void {
    const item = this.items[this.count];
    if (item === undefined) {
      this.items.push({ sequence, from, tokens, prefill, generate });
    } else {
      item.sequence = sequence;
      item.from = from;
      item.tokens = tokens;
      item.prefill = prefill;
      item.generate = generate;
    }
    this.count++;
    this.generatedTokens += generate;
    if (prefill) this.prefillTokens += tokens;
    else this.decodeTokens += tokens;
  }

  /** Removes a sequence of the step. */
  remove(sequence: Sequence): void {
    const at = this.items.findIndex((item, i) => i < this.count && item.sequence === sequence);
    const [item] = this.items.splice(at, 1);
    this.count--;
    this.generatedTokens -= item.generate;
    if (item.prefill) this.prefillTokens -= item.tokens;
    else this.decodeTokens -= item.tokens;
  }

  /** Empties the plan. */
  clear(): void {
    this.count = this.prefillTokens = this.decodeTokens = this.generatedTokens = this.swappedTokens = 0;
    if (this.copies.length > 0) this.copies.length = 0;
  }
}

/** Result of a step. */
export interface StepResult {
  readonly durationNs: Nanos;
  /** By item, whether its sequence finished with this step. Absent: it finishes at the trace's output length. */
  readonly finished?: readonly boolean[];
}
