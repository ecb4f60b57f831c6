import type {
  PlanValidity,
  PluginOption,
  Scheduler,
  SchedulerContext,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { blocksToDecode, decodeAll, isDecoding } from "./decode-steps.ts";
import { refuseOutOfBlocks, refuseTooLong } from "./out-of-blocks.ts";
import { peakTokens, type TokenDemand } from "./peak-tokens.ts";
import { commonIds } from "./waiting-order.ts";

/** Names and defaults are those of LightLLM's API server. */
export const peakAdmissionOptions = {
  "running-max-req-size": { about: "maximum running requests", default: 1000, min: 1 },
  "batch-max-tokens": { about: "maximum prompt tokens per step", default: 8192, min: 1 },
  "chunked-prefill-size": {
    about: "maximum tokens of one prompt per step; 0: whole prompts, even above batch-max-tokens",
    default: 4096,
  },
  "router-max-wait-tokens": { about: "decode steps between two prefill steps", default: 1 },
} as const satisfies Record<string, PluginOption>;

export type PeakAdmissionOptions = Readonly<Record<keyof typeof peakAdmissionOptions, number>>;

/** Estimates output lengths for admission. */
export interface Estimate {
  /**
   * The first published form: a peak that is equal to the capacity is admitted, and no steps are added. Later versions add
   * `addedSteps` to the remaining output of every request, because LightLLM plans ahead, and admit a peak below the capacity.
   */
  readonly isFirstForm?: true;
  /** Estimated length of the output; at most `maxOutputTokens`. */
  outputTokens(sequence: SequenceView, context: SchedulerContext): number;
  /** A shared cached prefix counts once. */
  readonly sharesPrefixes?: true;
  finished?(sequence: SequenceView): void;
}

const addedSteps = 6;

/** A request in an estimate. */
interface Demand extends TokenDemand {
  readonly sequence: SequenceView;
  /** Cached tokens of its prompt. */
  readonly cachedTokens: number;
}

/**
 * Admission by the estimated peak of tokens in use: a waiting request is admitted if the peak with it stays below the
 * cache's capacity, else it blocks those behind it. Steps are prefill, in chunks, or decode. When the estimate was too low
 * and no block can be allocated for a decode, the request that arrived last is preempted to the head of the queue, and its
 * computed blocks stay cached. Always admits when idle, whatever the estimate.
 *
 * Source: LightLLM, server/router/req_queue/chunked_prefill/impl.py, server/router/manager.py.
 */
export class PeakAdmission implements Scheduler {
  readonly #estimate: Estimate;
  readonly #rules: Rules;
  readonly #options: PeakAdmissionOptions;
  readonly #chunkTokens: number;
  /** Decode steps since a step that computed prompts. */
  #decodeSteps = 0;
  /** The plan estimated an admission: the estimate depends on the output tokens so far, and may be sampled. */
  #estimated = false;

  constructor(estimate: Estimate, rules: Rules, options: Readonly<Record<string, number>>) {
    this.#estimate = estimate;
    this.#rules = rules;
    this.#options = options as PeakAdmissionOptions;
    const chunk = this.#options["chunked-prefill-size"];
    this.#chunkTokens = chunk === 0 ? Number.MAX_SAFE_INTEGER : Math.min(chunk, this.#options["batch-max-tokens"]);
  }

  plan(context: SchedulerContext): PlanValidity {
    const { running } = context;
    this.#estimated = false;
    let mayPrefill = true;
    for (;;) {
      mayPrefill = this.#decodeSteps >= this.#options["router-max-wait-tokens"] || !running.some(isDecoding);
      if (mayPrefill && this.#prefill(context)) break;
      if (running.length === 0) break;
      if (this.#decode(context)) break;
    }
    const isAdmissionDecided = mayPrefill && !this.#estimated;
    return isAdmissionDecided || context.waitingCount === 0 ? "until-change" : undefined;
  }

  repeated(steps: number): void {
    this.#decodeSteps += steps;
  }

  finished(sequence: SequenceView): void {
    this.#estimate.finished?.(sequence);
  }

  /** Plans a prefill step: the next chunks of running requests, then admissions. Returns whether the step is not empty. */
  #prefill(context: SchedulerContext): boolean {
    const { running } = context;
    let left = this.#options["batch-max-tokens"];
    let isAnyScheduled = false;
    let isOutOfBlocks = false;
    for (const sequence of running) {
      if (isDecoding(sequence) || left <= 0) continue;
      const tokens = Math.min(sequence.knownTokens - sequence.computedTokens, this.#chunkTokens, left);
      if (!context.schedule(sequence, tokens)) {
        isOutOfBlocks = true;
        continue;
      }
      left -= tokens;
      isAnyScheduled = true;
    }
    // A running request that needs blocks precedes waiting ones.
    if (!isOutOfBlocks && this.#admit(context, left)) isAnyScheduled = true;
    if (isAnyScheduled) this.#decodeSteps = 0;
    return isAnyScheduled;
  }

  #admit(context: SchedulerContext, promptTokens: number): boolean {
    const { running } = context;
    let demands: Demand[] | undefined;
    let left = promptTokens;
    let isAnyScheduled = false;
    for (let first = context.firstWaiting; first !== undefined; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (running.length >= this.#options["running-max-req-size"]) {
        context.limitedBy("max-num-seqs");
        break;
      }
      const tokens = Math.min(first.knownTokens, this.#chunkTokens);
      const isStepEmpty = left === this.#options["batch-max-tokens"];
      if (tokens > left && !isStepEmpty) {
        context.limitedBy("token-budget");
        break;
      }
      this.#estimated = true;
      demands ??= running.map((each) => this.#demand(context, each, each.cachedTokens));
      demands.push(this.#demand(context, first, this.#estimate.sharesPrefixes ? context.cachedTokens(first) : 0));
      const isIdle = running.length === 0;
      if (!isIdle && !this.#fits(context, demands)) {
        context.limitedBy("blocks");
        break;
      }
      if (context.admit(first, this.#chunkTokens)) {
        left -= tokens;
        isAnyScheduled = true;
      } else if (isIdle) {
        refuseOutOfBlocks(context, first);
        demands = undefined;
      } else break;
    }
    return isAnyScheduled;
  }

  #fits({ totalBlocks, blockTokens }: SchedulerContext, demands: readonly Demand[]): boolean {
    if (totalBlocks === undefined) return true;
    const shared = (a: Demand, b: Demand) => this.#sharedTokens(a, b, blockTokens);
    const peak = this.#estimate.sharesPrefixes ? peakTokens(demands, shared) : peakTokens(demands);
    const capacity = totalBlocks * blockTokens;
    return peak < capacity || (peak === capacity && this.#estimate.isFirstForm === true);
  }

  #demand(context: SchedulerContext, sequence: SequenceView, cachedTokens: number): Demand {
    const { knownTokens, computedTokens, generatedTokens, inStep, stepTokens } = sequence;
    const output = this.#estimate.outputTokens(sequence, context);
    const chunks = Math.ceil((knownTokens - computedTokens - (inStep ? stepTokens : 0)) / this.#chunkTokens);
    return {
      sequence,
      cachedTokens,
      currentTokens: Math.max(knownTokens + 1, computedTokens + 1),
      remainingTokens:
        Math.max(0, output - generatedTokens - 1) +
        (this.#estimate.isFirstForm ? 0 : addedSteps) +
        Math.max(0, chunks) * (this.#options["router-max-wait-tokens"] + 1),
    };
  }

  /** Tokens of the common prefix that two requests share in the same blocks, because it was a hit of one of them. */
  #sharedTokens(a: Demand, b: Demand, blockTokens: number): number {
    // With `publish=finish` running requests share only hits of both.
    const publishesAtFinish = this.#rules.publish === "finish";
    const cachedTokens = publishesAtFinish
      ? Math.min(a.cachedTokens, b.cachedTokens)
      : Math.max(a.cachedTokens, b.cachedTokens);
    const [x, y] = [a.sequence.request, b.sequence.request];
    const blocks = Math.min(Math.floor(cachedTokens / blockTokens), x.promptBlocks, y.promptBlocks);
    if (blocks === 0) return 0;
    const tokens = commonIds(x.keys, x.keyStart, y.keys, y.keyStart, blocks) * blockTokens;
    return Math.min(tokens, x.inputTokens, y.inputTokens);
  }

  /** Schedules a token of every decoding request that has a block; returns false if no request is left. */
  #decode(context: SchedulerContext): boolean {
    const { running } = context;
    while (running.length > 1 && isOutOfBlocksOfBlocks(context)) preemptLatest(context);
    while (!decodeAll(context) && !this.#continuePrefill(context)) {
      if (running.length > 1) {
        preemptLatest(context);
        continue;
      }
      refuseOutOfBlocks(context, running[0]);
      return false;
    }
    this.#decodeSteps++;
    return true;
  }

  /** Without decoding requests: schedules the next chunk of the first prompt that has blocks. */
  #continuePrefill(context: SchedulerContext): boolean {
    const tokens = Math.min(this.#chunkTokens, this.#options["batch-max-tokens"]);
    return context.running.some((each) => context.schedule(each, tokens));
  }
}

function isOutOfBlocksOfBlocks(context: SchedulerContext): boolean {
  const blocks = blocksToDecode(context);
  return blocks > 0 && blocks > context.availableBlocks;
}

/** Preempts the request that arrived last to the head of the queue. */
function preemptLatest(context: SchedulerContext): void {
  const { running } = context;
  let latest = running[0];
  for (const each of running) if (each.request.id > latest.request.id) latest = each;
  context.preempt(latest, "recompute");
}
