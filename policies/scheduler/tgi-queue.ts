import { blocksOf } from "../../core/cache/request.ts";
import type {
  PlanValidity,
  PluginOption,
  Scheduler,
  SchedulerContext,
  SchedulerPlugin,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { isDecoding } from "./decode-steps.ts";
import { admittedTokens, refuseOutOfBlocks, refuseTooLong } from "./out-of-blocks.ts";
import { commonIds } from "./waiting-order.ts";

/** Names and defaults are those of TGI's launcher. */
const tgiOptions = {
  "max-batch-prefill-tokens": {
    about: "maximum prompt tokens per step; the last prompt is chunked to fit",
    default: 4096,
    min: 1,
  },
  "max-batch-total-tokens": {
    about:
      "maximum sum of prompt and maximum output tokens of all running requests, unless only one runs; 0: limited by the cache",
    default: 0,
  },
  "waiting-served-ratio": {
    about: "minimum ratio of waiting to running requests at which prefill interrupts decode",
    default: 0.3,
    fraction: true,
  },
  "max-waiting-tokens": {
    about: "decode steps after which prefill interrupts decode, however few requests wait",
    default: 20,
    min: 1,
  },
  "max-batch-size": { about: "maximum running requests; 0: as many as fit", default: 0 },
} as const satisfies Record<string, PluginOption>;

/** Tokens of a request whose output has its maximum length. */
const maxTokens = ({ inputTokens, maxOutputTokens }: SequenceView["request"]) => inputTokens + maxOutputTokens - 1;

/**
 * The queue of TGI's router. Waiting requests are admitted in order, each with blocks for its longest output (rule
 * `reserve=worst-case`), until the first that does not fit, which blocks all behind it. Their prompts are computed in a
 * prefill step, which interrupts decoding if enough requests wait, or for long enough, and enough of them fit; a decode step
 * follows. The later chunks of a prompt are computed in the decode steps.
 *
 * TGI allocates a batch, and drops it if it is too small; here the requests are counted before allocation. For models with
 * chunked prefill TGI ignores the ratio: `waiting-served-ratio=0`.
 *
 * Source: Text Generation Inference v3, backends/v3/src/backend.rs (`batching_task`), queue.rs (`next_batch`).
 */
class TgiQueue implements Scheduler {
  readonly #rules: Rules;
  readonly #options: Readonly<Record<keyof typeof tgiOptions, number>>;
  /** Decode steps since the last prefill step. */
  #decodeSteps = 0;
  /** A prefill step has interrupted decoding; a decode step is next. */
  #isDecodeNext = false;
  /** This plan tried to admit the first waiting request, and it did not fit; it may not fit until a request finishes. */
  #isBlocked = false;

  constructor(rules: Rules, options: Readonly<Record<string, number>>) {
    this.#rules = rules;
    this.#options = options as Readonly<Record<keyof typeof tgiOptions, number>>;
  }

  plan(context: SchedulerContext): PlanValidity {
    this.#isBlocked = false;
    for (;;) {
      if (context.running.length === 0) this.#isDecodeNext = false;
      if (!this.#isDecodeNext && this.#prefill(context)) break;
      if (context.running.length === 0) break;
      if (this.#decode(context)) break;
    }
    return this.#isBlocked || context.waitingCount === 0 ? "until-change" : undefined;
  }

  repeated(steps: number): void {
    this.#decodeSteps += steps;
  }

  /** Plans a prefill step if enough requests wait and fit; returns whether it did. */
  #prefill(context: SchedulerContext): boolean {
    const { running, waitingCount } = context;
    if (waitingCount === 0) return false;
    const before = running.length;
    const isForced = before === 0 || this.#decodeSteps + 1 >= this.#options["max-waiting-tokens"];
    const minimum = isForced ? 1 : Math.max(1, Math.floor(before * this.#options["waiting-served-ratio"]));
    if (waitingCount < minimum) return false;
    if (minimum > 1 && this.#fitting(context, minimum) < minimum) return false;
    const added = this.#admit(context);
    this.#isBlocked = added === 0 && context.waitingCount > 0;
    if (added === 0) return false;
    this.#decodeSteps = 0;
    this.#isDecodeNext = before > 0;
    return true;
  }

  /** Admits waiting requests, in order, until one does not fit; returns their number. */
  #admit(context: SchedulerContext): number {
    const { running } = context;
    let added = 0;
    let promptLeft = this.#options["max-batch-prefill-tokens"];
    let totalLeft = this.#totalLeft(context);
    for (let first = context.firstWaiting; first !== undefined; first = context.firstWaiting) {
      if (promptLeft <= 0) {
        context.limitedBy("token-budget");
        break;
      }
      if (!this.#isBelowBatchSize(context, 0)) {
        context.limitedBy("max-num-seqs");
        break;
      }
      if (refuseTooLong(context, first, this.#rules)) continue;
      const tokensAtMost = maxTokens(first.request);
      const isIdle = running.length === 0;
      if (tokensAtMost > totalLeft && !isIdle) {
        context.limitedBy("token-budget");
        break;
      }
      const tokens = Math.max(1, first.knownTokens - context.cachedTokens(first));
      if (!context.admit(first, Math.min(tokens, promptLeft))) {
        if (!isIdle) break;
        refuseOutOfBlocks(context, first);
        continue;
      }
      added++;
      promptLeft -= tokens;
      totalLeft -= tokensAtMost;
    }
    return added;
  }

  /** Number of the first `count` waiting requests that would be admitted now; changes nothing. */
  #fitting(context: SchedulerContext, count: number): number {
    let promptLeft = this.#options["max-batch-prefill-tokens"];
    let totalLeft = this.#totalLeft(context);
    let blocks = context.availableBlocks;
    const admitted: SequenceView[] = [];
    for (let next = context.firstWaiting; next !== undefined && admitted.length < count; next = next.next) {
      const cached = context.cachedTokens(next);
      const neededBlocks = blocksOf(admittedTokens(next, this.#rules), context.blockTokens);
      blocks -= neededBlocks - this.#sharedBlocks(context, next, admitted, Math.floor(cached / context.blockTokens));
      totalLeft -= maxTokens(next.request);
      const limit = this.#isBelowBatchSize(context, admitted.length)
        ? limitOf(blocks, Math.min(totalLeft, promptLeft - 1))
        : "max-num-seqs";
      if (limit !== undefined) {
        context.limitedBy(limit);
        break;
      }
      promptLeft -= Math.max(1, next.knownTokens - cached);
      admitted.push(next);
    }
    return admitted.length;
  }

  /** Cached blocks of a request that others reference: no available block is allocated for them. */
  #sharedBlocks(
    { running, blockTokens }: SchedulerContext,
    { request }: SequenceView,
    admitted: readonly SequenceView[],
    cachedBlocks: number,
  ): number {
    const commonBlocks = (other: SequenceView["request"], limit: number) =>
      commonIds(request.keys, request.keyStart, other.keys, other.keyStart, Math.min(limit, other.promptBlocks));
    let sharedBlocks = 0;
    if (cachedBlocks === 0) return 0;
    for (const { request: other, cachedTokens, computedTokens } of running) {
      const publishedTokens = this.#rules.publish === "finish" ? cachedTokens : computedTokens;
      sharedBlocks = Math.max(
        sharedBlocks,
        commonBlocks(other, Math.min(cachedBlocks, Math.floor(publishedTokens / blockTokens))),
      );
    }
    for (const { request: other } of admitted) sharedBlocks = Math.max(sharedBlocks, commonBlocks(other, cachedBlocks));
    return sharedBlocks;
  }

  #isBelowBatchSize({ running }: SchedulerContext, admitted: number): boolean {
    const limit = this.#options["max-batch-size"];
    return limit === 0 || running.length + admitted < limit;
  }

  #totalLeft({ running }: SchedulerContext): number {
    const limit = this.#options["max-batch-total-tokens"];
    if (limit === 0) return Number.POSITIVE_INFINITY;
    return running.reduce((left, { request }) => left - maxTokens(request), limit);
  }

  /** Schedules tokens of all running requests for which blocks are available; returns false if no request is left. */
  #decode(context: SchedulerContext): boolean {
    const { running } = context;
    while (!this.#scheduleAll(context)) {
      // Only with `reserve=grow`, which TGI does not use.
      const last = running[running.length - 1];
      if (running.length > 1) {
        context.preempt(last, "recompute");
        continue;
      }
      refuseOutOfBlocks(context, last);
      return false;
    }
    this.#isDecodeNext = false;
    this.#decodeSteps++;
    return true;
  }

  /** Schedules a token of decoding requests and the next chunk of the others; returns whether any was scheduled. */
  #scheduleAll(context: SchedulerContext): boolean {
    let isAnyScheduled = false;
    let promptLeft = this.#options["max-batch-prefill-tokens"];
    for (const sequence of context.running) {
      if (isDecoding(sequence)) {
        if (context.schedule(sequence)) isAnyScheduled = true;
      } else if (promptLeft > 0) {
        const tokens = Math.min(promptLeft, sequence.knownTokens - sequence.computedTokens);
        if (!context.schedule(sequence, tokens)) continue;
        promptLeft -= tokens;
        isAnyScheduled = true;
      }
    }
    return isAnyScheduled;
  }
}

/** The limit that negative remainders exceed. */
const limitOf = (blocks: number, tokens: number) => (blocks < 0 ? "blocks" : tokens < 0 ? "token-budget" : undefined);

export const tgiQueue: SchedulerPlugin = {
  name: "tgi-queue",
  about: "first come, first served; prefill interrupts decoding when enough requests wait, or for long enough",
  source: "Text Generation Inference v3",
  options: tgiOptions,
  create: ({ rules, options }) => new TgiQueue(rules, options),
};
