import type { BlockCopy } from "../cache/block-refs.ts";
import type { Sequence } from "../cache/request.ts";
import type { Nanos } from "../trace/trace.ts";

/** A sequence's part in a step. Objects are used again in the next step. */
export interface StepItem {
  sequence: Sequence;
  /** Tokens [from, from + tokens) are computed; what is before them is in the cache. */
  from: number;
  tokens: number;
  /** Whether these are tokens of a prompt (or of what was generated before a preemption). */
  prefill: boolean;
  /** Tokens generated at the end: 0 while the prompt is not done, then 1; more where steps are not stepped through. */
  generate: number;
}

/** One step of the model: what the scheduler put together and an executor runs. Block tables are the sequences' own. */
export class StepPlan {
  /** The first `count` are this step's. */
  readonly items: StepItem[] = [];
  count = 0;
  prefillTokens = 0;
  decodeTokens = 0;
  /** Tokens whose keys and values go to the host, or come back from there, before the step runs. */
  swappedTokens = 0;
  readonly copies: BlockCopy[];

  constructor(copies: BlockCopy[]) {
    this.copies = copies;
  }

  get isEmpty(): boolean {
    return this.count === 0;
  }

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
    if (prefill) this.prefillTokens += tokens;
    else this.decodeTokens += tokens;
  }

  remove(sequence: Sequence): void {
    const at = this.items.findIndex((item, i) => i < this.count && item.sequence === sequence);
    const [item] = this.items.splice(at, 1);
    this.count--;
    if (item.prefill) this.prefillTokens -= item.tokens;
    else this.decodeTokens -= item.tokens;
  }

  clear(): void {
    this.count = this.prefillTokens = this.decodeTokens = this.swappedTokens = 0;
    if (this.copies.length > 0) this.copies.length = 0;
  }
}

/** What came of a step. */
export interface StepResult {
  readonly durationNs: Nanos;
  /** Whether each item's sequence ended with this step. Absent: it ends at the trace's output length. */
  readonly finished?: readonly boolean[];
}
