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
import { admittedTokens, refuseForRoom, refuseTooLong } from "./room.ts";
import { commonIds } from "./waiting-order.ts";

/** Names and defaults are those of TGI's launcher. */
const tgiOptions = {
  "max-batch-prefill-tokens": {
    about: "most prompt tokens of a step, the last request cut to fit",
    default: 4096,
    min: 1,
  },
  "max-batch-total-tokens": {
    about: "most tokens of all that run with their longest answers, unless it is one request; 0: what the cache has",
    default: 0,
  },
  "waiting-served-ratio": {
    about: "decoding is interrupted once so many wait for each that runs",
    default: 0.3,
    fraction: true,
  },
  "max-waiting-tokens": {
    about: "decoding is interrupted after so many tokens, however few wait",
    default: 20,
    min: 1,
  },
  "max-batch-size": { about: "most requests that run; 0: as many as fit", default: 0 },
} as const satisfies Record<string, PluginOption>;

/** Most tokens of a request. */
const longestTokens = ({ inputTokens, maxOutputTokens }: SequenceView["request"]) => inputTokens + maxOutputTokens - 1;

/**
 * The queue of TGI's router. Waiting requests are admitted in order, each with blocks for its longest output (rule
 * `reserve=worst-case`), until the first that does not fit, which blocks all behind it. Their prompts are a prefill step,
 * which interrupts decoding if enough requests wait, or for long enough, and enough of them fit; a decode step follows. The
 * rest of a prompt that is cut to fit is computed in the decode steps.
 *
 * TGI counts a batch that turned out too small by dropping what it has allocated; here it is counted before. Where a model
 * can compute chunks, TGI waits for no ratio, as `waiting-served-ratio=0` says here.
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
  /** This plan tried to admit the first waiting request, and there was no room, however long it has waited. */
  #isHeldUp = false;

  constructor(rules: Rules, options: Readonly<Record<string, number>>) {
    this.#rules = rules;
    this.#options = options as Readonly<Record<keyof typeof tgiOptions, number>>;
  }

  plan(context: SchedulerContext): PlanValidity {
    this.#isHeldUp = false;
    for (;;) {
      if (context.running.length === 0) this.#isDecodeNext = false;
      if (!this.#isDecodeNext && this.#prefill(context)) break;
      if (context.running.length === 0) break;
      if (this.#decode(context)) break;
    }
    return this.#isHeldUp || context.waitingCount === 0 ? "until-change" : undefined;
  }

  repeated(steps: number): void {
    this.#decodeSteps += steps;
  }

  /** A prefill step, if enough requests wait and fit. */
  #prefill(context: SchedulerContext): boolean {
    const { running, waitingCount } = context;
    if (waitingCount === 0) return false;
    const before = running.length;
    const isForced = before === 0 || this.#decodeSteps + 1 >= this.#options["max-waiting-tokens"];
    const least = isForced ? 1 : Math.max(1, Math.floor(before * this.#options["waiting-served-ratio"]));
    if (waitingCount < least) return false;
    if (least > 1 && this.#fitting(context, least) < least) return false;
    const added = this.#admit(context);
    this.#isHeldUp = added === 0 && context.waitingCount > 0;
    if (added === 0) return false;
    this.#decodeSteps = 0;
    this.#isDecodeNext = before > 0;
    return true;
  }

  /** Admits waiting requests, in order, until one does not fit; returns how many. */
  #admit(context: SchedulerContext): number {
    const { running } = context;
    let added = 0;
    let promptLeft = this.#options["max-batch-prefill-tokens"];
    let totalLeft = this.#totalLeft(context);
    for (let first = context.firstWaiting; first !== undefined && promptLeft > 0; first = context.firstWaiting) {
      if (!this.#hasSeat(context, 0)) break;
      if (refuseTooLong(context, first, this.#rules)) continue;
      const longest = longestTokens(first.request);
      const isAlone = running.length === 0;
      if (longest > totalLeft && !isAlone) break;
      const tokens = Math.max(1, first.knownTokens - context.cachedTokens(first));
      if (!context.admit(first, Math.min(tokens, promptLeft))) {
        if (!isAlone) break;
        refuseForRoom(context, first);
        continue;
      }
      added++;
      promptLeft -= tokens;
      totalLeft -= longest;
    }
    return added;
  }

  /** How many of the first `most` waiting requests would be admitted now; changes nothing. */
  #fitting(context: SchedulerContext, most: number): number {
    let promptLeft = this.#options["max-batch-prefill-tokens"];
    let totalLeft = this.#totalLeft(context);
    let blocks = context.availableBlocks;
    const taken: SequenceView[] = [];
    for (let next = context.firstWaiting; next !== undefined && taken.length < most; next = next.next) {
      const cached = context.cachedTokens(next);
      const wanted = blocksOf(admittedTokens(next, this.#rules), context.blockTokens);
      blocks -= wanted - this.#inUse(context, next, taken, Math.floor(cached / context.blockTokens));
      totalLeft -= longestTokens(next.request);
      if (blocks < 0 || totalLeft < 0 || promptLeft <= 0 || !this.#hasSeat(context, taken.length)) break;
      promptLeft -= Math.max(1, next.knownTokens - cached);
      taken.push(next);
    }
    return taken.length;
  }

  /** Cached blocks of a request that others reference: they need no available block. */
  #inUse(
    { running, blockTokens }: SchedulerContext,
    { request }: SequenceView,
    taken: readonly SequenceView[],
    cachedBlocks: number,
  ): number {
    const shared = (other: SequenceView["request"], most: number) =>
      commonIds(request.keys, request.keyStart, other.keys, other.keyStart, Math.min(most, other.promptBlocks));
    let inUse = 0;
    if (cachedBlocks === 0) return 0;
    for (const { request: other, cachedTokens, computedTokens } of running) {
      const held = this.#rules.publish === "finish" ? cachedTokens : computedTokens;
      inUse = Math.max(inUse, shared(other, Math.min(cachedBlocks, Math.floor(held / blockTokens))));
    }
    for (const { request: other } of taken) inUse = Math.max(inUse, shared(other, cachedBlocks));
    return inUse;
  }

  #hasSeat({ running }: SchedulerContext, taken: number): boolean {
    const most = this.#options["max-batch-size"];
    return most === 0 || running.length + taken < most;
  }

  #totalLeft({ running }: SchedulerContext): number {
    const most = this.#options["max-batch-total-tokens"];
    if (most === 0) return Number.POSITIVE_INFINITY;
    return running.reduce((left, { request }) => left - longestTokens(request), most);
  }

  /** Schedules tokens of all running requests that have blocks; returns false if no request is left. */
  #decode(context: SchedulerContext): boolean {
    const { running } = context;
    while (!this.#scheduleAll(context)) {
      // Only with `reserve=grow`, which TGI does not use.
      const last = running[running.length - 1];
      if (running.length > 1) {
        context.preempt(last, "recompute");
        continue;
      }
      refuseForRoom(context, last);
      return false;
    }
    this.#isDecodeNext = false;
    this.#decodeSteps++;
    return true;
  }

  /** Schedules a token of decoding requests and the next chunk of the others; returns whether one had blocks. */
  #scheduleAll(context: SchedulerContext): boolean {
    let isAny = false;
    let promptLeft = this.#options["max-batch-prefill-tokens"];
    for (const sequence of context.running) {
      if (isDecoding(sequence)) {
        if (context.schedule(sequence)) isAny = true;
      } else if (promptLeft > 0) {
        const tokens = Math.min(promptLeft, sequence.knownTokens - sequence.computedTokens);
        if (!context.schedule(sequence, tokens)) continue;
        promptLeft -= tokens;
        isAny = true;
      }
    }
    return isAny;
  }
}

export const tgiQueue: SchedulerPlugin = {
  name: "tgi-queue",
  about: "first come, first served; prompts interrupt decoding when enough wait, or for long enough",
  source: "Text Generation Inference v3",
  options: tgiOptions,
  create: ({ rules, options }) => new TgiQueue(rules, options),
};
