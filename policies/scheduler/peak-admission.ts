import type {
  PlanValidity,
  PluginOption,
  Scheduler,
  SchedulerContext,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { blocksToDecode, decodeAll, isDecoding } from "./decode-steps.ts";
import { peakTokens, type TokenDemand } from "./peak-tokens.ts";
import { refuseForRoom, refuseTooLong } from "./room.ts";
import { commonIds } from "./waiting-order.ts";

/** Names and defaults are those of LightLLM's API server. */
export const peakAdmissionOptions = {
  "running-max-req-size": { about: "most requests that run", default: 1000, min: 1 },
  "batch-max-tokens": { about: "most prompt tokens of a step", default: 8192, min: 1 },
  "chunked-prefill-size": {
    about: "most tokens of one prompt in a step; 0: all of it, even if a step may not have so many",
    default: 4096,
  },
  "router-max-wait-tokens": { about: "decode steps before prompts may be computed again", default: 1 },
} as const satisfies Record<string, PluginOption>;

export type PeakAdmissionOptions = Readonly<Record<keyof typeof peakAdmissionOptions, number>>;

/** Steps added to the remaining output of every request, because LightLLM plans ahead. */
const addedSteps = 6;

/** How an admission is estimated. */
export interface Estimate {
  /** Estimated length of the output; at most `maxOutputTokens`. */
  outputTokens(sequence: SequenceView, context: SchedulerContext): number;
  /** A shared cached prefix counts once. */
  readonly sharesPrefixes?: true;
  finished?(sequence: SequenceView): void;
}

/** A request in an estimate. */
interface Demand extends TokenDemand {
  readonly sequence: SequenceView;
  /** Cached tokens of its prompt. */
  readonly cachedTokens: number;
}

/**
 * Admission by the estimated peak of tokens in use: a waiting request is admitted if the peak with it stays below the
 * cache's capacity, else it blocks those behind it. Steps are prefill, in chunks, or decode. When a decode finds no block
 * although the estimate admitted it, the request that arrived last is preempted to the head of the queue, and its computed
 * blocks stay cached. Always admits when idle, whatever the estimate.
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
  /** The plan estimated an admission: the estimate depends on the output tokens so far, and may be drawn by chance. */
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
    let isTime = true;
    for (;;) {
      isTime = this.#decodeSteps >= this.#options["router-max-wait-tokens"] || !running.some(isDecoding);
      if (isTime && this.#prefill(context)) break;
      if (running.length === 0) break;
      if (this.#decode(context)) break;
    }
    const hasLooked = isTime && !this.#estimated;
    return hasLooked || context.waitingCount === 0 ? "until-change" : undefined;
  }

  repeated(steps: number): void {
    this.#decodeSteps += steps;
  }

  finished(sequence: SequenceView): void {
    this.#estimate.finished?.(sequence);
  }

  /** A prefill step: the next chunks of running requests, then admissions. */
  #prefill(context: SchedulerContext): boolean {
    const { running } = context;
    let left = this.#options["batch-max-tokens"];
    let isAny = false;
    let isShort = false;
    for (const sequence of running) {
      if (isDecoding(sequence) || left <= 0) continue;
      const tokens = Math.min(sequence.knownTokens - sequence.computedTokens, this.#chunkTokens, left);
      if (!context.schedule(sequence, tokens)) {
        isShort = true;
        continue;
      }
      left -= tokens;
      isAny = true;
    }
    // A running request without blocks has precedence over waiting ones.
    if (!isShort && this.#admit(context, left)) isAny = true;
    if (isAny) this.#decodeSteps = 0;
    return isAny;
  }

  #admit(context: SchedulerContext, promptTokens: number): boolean {
    const { running } = context;
    let demands: Demand[] | undefined;
    let left = promptTokens;
    let isAny = false;
    for (let first = context.firstWaiting; first !== undefined; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (running.length >= this.#options["running-max-req-size"]) break;
      const wanted = Math.min(first.knownTokens, this.#chunkTokens);
      const isStepEmpty = left === this.#options["batch-max-tokens"];
      if (wanted > left && !isStepEmpty) break;
      this.#estimated = true;
      demands ??= running.map((each) => this.#demand(context, each, each.cachedTokens));
      demands.push(this.#demand(context, first, this.#estimate.sharesPrefixes ? context.cachedTokens(first) : 0));
      const isAlone = running.length === 0;
      if (!isAlone && !this.#fits(context, demands)) break;
      if (context.admit(first, this.#chunkTokens)) {
        left -= wanted;
        isAny = true;
      } else if (isAlone) {
        refuseForRoom(context, first);
        demands = undefined;
      } else break;
    }
    return isAny;
  }

  #fits({ totalBlocks, blockTokens }: SchedulerContext, demands: readonly Demand[]): boolean {
    if (totalBlocks === undefined) return true;
    const shared = (a: Demand, b: Demand) => this.#sharedTokens(a, b, blockTokens);
    const peak = this.#estimate.sharesPrefixes ? peakTokens(demands, shared) : peakTokens(demands);
    return peak < totalBlocks * blockTokens;
  }

  #demand(context: SchedulerContext, sequence: SequenceView, cachedTokens: number): Demand {
    const { knownTokens, computedTokens, generatedTokens, inStep, stepTokens } = sequence;
    const output = this.#estimate.outputTokens(sequence, context);
    const chunks = Math.ceil((knownTokens - computedTokens - (inStep ? stepTokens : 0)) / this.#chunkTokens);
    return {
      sequence,
      cachedTokens,
      runTokens: Math.max(knownTokens + 1, computedTokens + 1),
      leftTokens:
        Math.max(0, output - generatedTokens - 1) +
        addedSteps +
        Math.max(0, chunks) * (this.#options["router-max-wait-tokens"] + 1),
    };
  }

  /** Tokens of the common prefix that two requests have in the same blocks, because it was a hit of one of them. */
  #sharedTokens(a: Demand, b: Demand, blockTokens: number): number {
    // With `publish=finish` running requests share only hits of both.
    const isLate = this.#rules.publish === "finish";
    const found = isLate ? Math.min(a.cachedTokens, b.cachedTokens) : Math.max(a.cachedTokens, b.cachedTokens);
    const [x, y] = [a.sequence.request, b.sequence.request];
    const blocks = Math.min(Math.floor(found / blockTokens), x.promptBlocks, y.promptBlocks);
    if (blocks === 0) return 0;
    const tokens = commonIds(x.keys, x.keyStart, y.keys, y.keyStart, blocks) * blockTokens;
    return Math.min(tokens, x.inputTokens, y.inputTokens);
  }

  /** Schedules a token of every decoding request that has a block; returns false if no request is left. */
  #decode(context: SchedulerContext): boolean {
    const { running } = context;
    while (running.length > 1 && isShortOfBlocks(context)) preemptLatest(context);
    while (!decodeAll(context) && !this.#goOn(context)) {
      if (running.length > 1) {
        preemptLatest(context);
        continue;
      }
      refuseForRoom(context, running[0]);
      return false;
    }
    this.#decodeSteps++;
    return true;
  }

  /** Without decoding requests: schedules the next chunk of the first prompt that has blocks. */
  #goOn(context: SchedulerContext): boolean {
    const tokens = Math.min(this.#chunkTokens, this.#options["batch-max-tokens"]);
    return context.running.some((each) => context.schedule(each, tokens));
  }
}

function isShortOfBlocks(context: SchedulerContext): boolean {
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
