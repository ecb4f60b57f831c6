import type { KvCache } from "../core/cache/kv-cache.ts";
import type { Request, Sequence } from "../core/cache/request.ts";
import type { StepItem, StepPlan } from "../core/replica/step.ts";
import type { StepRunner } from "../core/serving/step-runner.ts";
import type { TimedReplica } from "../core/serving/timed-replica.ts";
import type { Nanos } from "../core/trace/trace.ts";
import { batchOf } from "./batch.ts";
import type { Executor } from "./executor.ts";
import { HostTier } from "./host-tier.ts";
import { type TokenChoice, Tokens } from "./tokens.ts";

export interface ModelStepsOptions {
  readonly executor: Executor;
  readonly blockTokens: number;
  /** Vocabulary size of the model. */
  readonly vocabulary: number;
  /** How output tokens are chosen. */
  readonly choice?: TokenChoice;
  /**
   * Called with each output token, whether it is the request's last one, and the logits that it was chosen from, which are valid
   * only during the call; undefined if the device sampled. Without this callback, the device may sample.
   */
  readonly onToken?: (request: Request, token: number, isLast: boolean, logits: Float32Array | undefined) => void;
  /** Whether `onToken` needs the logits of the step that is about to run; absent: of every step. Otherwise the device may sample. */
  readonly needsLogits?: () => boolean;
}

/**
 * Runs the steps of a replica on an executor.
 *
 *   plan ─▶ swap out, copy, swap in ─▶ batch ─▶ executor ─▶ logits or sampled tokens ─▶ tokens
 */
export class ModelSteps implements StepRunner {
  readonly calls: StepRunner["calls"];
  readonly #options: ModelStepsOptions;
  readonly #host: HostTier;
  readonly #tokens: Tokens;
  #plan: StepPlan | undefined;

  /** @throws InputError if a sampling option is out of range */
  constructor(options: ModelStepsOptions, cache: KvCache) {
    this.#options = options;
    this.calls = options.executor.calls;
    this.#host = new HostTier(options.executor);
    this.#tokens = new Tokens(options.vocabulary, cache, options.choice);
  }

  get decidesEnds(): boolean {
    return this.#tokens.decidesEnds;
  }

  /** Plans the next step. `execute` runs it; its end time is known only afterwards. */
  start(replica: TimedReplica, nowNs: Nanos): undefined {
    this.#plan = replica.beginStep(nowNs);
  }

  /** Whether a step has been planned but not executed. */
  get isPlanned(): boolean {
    return this.#plan !== undefined;
  }

  /** Runs the planned step. Returns which items finish with it, if output tokens decide that. */
  async execute(): Promise<boolean[] | undefined> {
    const plan = this.#plan!;
    this.#plan = undefined;
    const { executor } = this.#options;
    await this.#host.moveOut();
    if (plan.copies.length > 0) await executor.copyBlocks(plan.copies);
    await this.#host.moveIn();
    const outputs = await this.#outputs(plan);
    const finished: boolean[] = [];
    for (let i = 0; i < plan.count; i++) {
      const item = plan.items[i];
      if (item.generate === 0) continue;
      const { token, isLast, logits } = this.#tokens.next(item.sequence, outputs.get(item));
      finished[i] = isLast;
      this.#options.onToken?.(item.sequence.request, token, isLast, logits);
    }
    return this.decidesEnds ? finished : undefined;
  }

  swappedOut(sequence: Sequence, tokens: number): void {
    this.#host.swappedOut(sequence, tokens);
  }

  swappedIn(sequence: Sequence, tokens: number): void {
    this.#host.swappedIn(sequence, tokens);
  }

  ended({ request: { id } }: Sequence): void {
    this.#host.ended(id);
    this.#tokens.ended(id);
  }

  /** The logits of each item that generates a token, or its token if the device samples. */
  async #outputs(plan: StepPlan): Promise<ReadonlyMap<StepItem, Float32Array | number>> {
    const { executor, blockTokens, vocabulary, onToken, needsLogits } = this.#options;
    const { step, items, sampled } = batchOf(plan, blockTokens, (sequence, from, to, into, at) =>
      this.#tokens.write(sequence, from, to, into, at),
    );
    const outputs = new Map<StepItem, Float32Array | number>();
    if (items.length === 0) return outputs;
    const requests = sampled.map(({ sequence }) => sequence.request);
    const logitsAreUsed = onToken !== undefined && (needsLogits?.() ?? true);
    const sampling = logitsAreUsed ? undefined : this.#tokens.onDevice(requests, executor);
    const { tokens, logits } = await executor.executeStep(sampling ? { ...step, sampling } : step);
    sampled.forEach((item, i) => {
      outputs.set(item, tokens ? tokens[i] : logits.subarray(i * vocabulary, (i + 1) * vocabulary));
    });
    return outputs;
  }
}
