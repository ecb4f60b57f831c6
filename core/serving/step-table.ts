import type { Nanos } from "../trace/trace.ts";
import type { StepObserver } from "./observers.ts";
import type { StepLoad } from "./step-load.ts";

/** One row per step, in the order of their ends. */
export class StepTable implements StepObserver {
  readonly replica: number[] = [];
  readonly startNs: number[] = [];
  readonly durationNs: number[] = [];
  readonly sequences: number[] = [];
  readonly prefillTokens: number[] = [];
  readonly decodeTokens: number[] = [];
  /** Tokens whose KV the step reads, prefill and decode. */
  readonly contextTokens: number[] = [];
  /** Of these, tokens that prefill reads. */
  readonly prefillContextTokens: number[] = [];
  readonly prefillSequences: number[] = [];
  readonly prefillPairs: number[] = [];
  readonly logits: number[] = [];
  readonly calls: number[] = [];
  readonly paddedContextTokens: number[] = [];
  readonly farContextTokens: number[] = [];
  readonly paddedPairs: number[] = [];
  readonly copiedBlocks: number[] = [];
  readonly swappedTokens: number[] = [];

  steps(
    replica: { readonly number: number },
    load: Readonly<StepLoad>,
    startNs: Nanos,
    count: number,
    endsNs: Float64Array,
  ): void {
    let from = startNs;
    // `load` is that of the last step; each decode reads one more token of context per step.
    const context = load.prefillContextTokens + load.decodeContextTokens;
    for (let i = 0; i < count; i++) {
      this.replica.push(replica.number);
      this.startNs.push(from);
      this.durationNs.push(endsNs[i] - from);
      this.sequences.push(load.sequences);
      this.prefillTokens.push(load.prefillTokens);
      this.decodeTokens.push(load.decodeTokens);
      this.contextTokens.push(context - (count - 1 - i) * load.decodeTokens);
      this.prefillContextTokens.push(load.prefillContextTokens);
      this.prefillSequences.push(load.prefillSequences);
      this.prefillPairs.push(load.prefillPairs);
      this.logits.push(load.logits);
      this.calls.push(load.calls);
      this.paddedContextTokens.push(load.paddedContextTokens);
      this.farContextTokens.push(load.farContextTokens);
      this.paddedPairs.push(load.paddedPairs);
      this.copiedBlocks.push(load.copiedBlocks);
      this.swappedTokens.push(load.swappedTokens);
      from = endsNs[i];
    }
  }

  /** Removes all rows. */
  clear(): void {
    for (const column of Object.values(this) as number[][]) column.length = 0;
  }
}
