import type { BlockId } from "./plugins.ts";
import type { Sequence } from "./request.ts";
import type { Nanos } from "./trace.ts";

/** A sequence's part in a step. */
export interface StepItem {
  readonly sequence: Sequence;
  /** Tokens [from, from + tokens) are computed; what is before them is in the cache. */
  readonly from: number;
  readonly tokens: number;
  /** Whether these are tokens of a prompt (or of what was generated before a preemption). */
  readonly prefill: boolean;
  /** Tokens generated at the end of the step: 0 while the prompt is not done, then 1; more where steps are not stepped through. */
  readonly generate: number;
}

/** One step of the model: what the scheduler put together and an executor runs. Block tables are the sequences' own. */
export class StepPlan {
  readonly items: StepItem[] = [];
  /** Blocks to copy before the step. */
  readonly copies: { readonly source: BlockId; readonly target: BlockId }[] = [];
  prefillTokens = 0;
  decodeTokens = 0;

  get isEmpty(): boolean {
    return this.items.length === 0;
  }

  add(item: StepItem): void {
    this.items.push(item);
    if (item.prefill) this.prefillTokens += item.tokens;
    else this.decodeTokens += item.tokens;
  }

  clear(): void {
    this.items.length = this.copies.length = this.prefillTokens = this.decodeTokens = 0;
  }
}

/** What came of a step. */
export interface StepResult {
  readonly durationNs: Nanos;
  /** Whether each item's sequence ended with this step. Absent: it ends at the trace's output length. */
  readonly finished?: readonly boolean[];
}
