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

/** Names and defaults of SGLang's `ServerArgs` and (the last six) of its environment variables. */
export const prefillFirstOptions = {
  "max-running-requests": { about: "maximum running requests", default: 2048, min: 1 },
  "max-prefill-tokens": {
    about: "maximum prompt tokens per step, unless it has one request only",
    default: 16384,
    min: 1,
  },
  "chunked-prefill-size": {
    about: "maximum prompt tokens per step, the last prompt is chunked to fit; 0: no chunks",
    default: 8192,
  },
  "mixed-chunk": { about: "1: prefill steps decode, too", default: 0, max: 1 },
  "init-new-token-ratio": {
    about: "initial share of the remaining maximum output for which blocks are reserved",
    default: 0.7,
    max: 1,
    fraction: true,
  },
  "min-new-token-ratio-factor": {
    about: "minimum of the reserved share, as a fraction of the initial share",
    default: 0.14,
    max: 1,
    fraction: true,
  },
  "new-token-ratio-decay-steps": { about: "decode steps from the initial share to the minimum", default: 600, min: 1 },
  "clip-max-new-tokens": { about: "maximum output tokens that are considered", default: 4096, min: 1 },
  "retract-decode-steps": { about: "decode steps for which a retraction frees enough blocks", default: 20, min: 1 },
} as const satisfies Record<string, PluginOption>;

type PrefillFirstOptions = Readonly<Record<keyof typeof prefillFirstOptions, number>>;

/** The waiting requests in the order of admission; undefined: in order of arrival. */
export type QueueOrder = (context: SchedulerContext) => Iterable<SequenceView> | undefined;

/**
 * Continuous batching with prefill first: while waiting requests fit, steps compute prompts and do not decode. Budgets are
 * those of SGLang's `PrefillAdder`: prompt tokens of a step, whose last prompt is chunked to fit, and the tokens that running
 * requests may still generate. Only a share of these is reserved, the new-token ratio, which falls with every decode step.
 * When no block can be allocated for a decode, the running requests with the fewest output tokens are retracted to the tail
 * of the queue, and the ratio is set to the need of the others. A request that does not fit blocks admissions until a
 * running one finishes.
 *
 * Source: SGLang, managers/scheduler.py (`get_new_batch_prefill`, `update_running_batch`), schedule_policy.py
 * (`PrefillAdder`), schedule_batch.py (`retract_decode`).
 */
export class PrefillFirst implements Scheduler {
  readonly #order: QueueOrder;
  readonly #rules: Rules;
  readonly #options: PrefillFirstOptions;
  /** The new-token ratio when `#decodeSteps` was 0. */
  #ratio: number;
  /** Decode steps since the ratio was set. */
  #decodeSteps = 0;
  readonly #firstRatio: number;
  readonly #leastRatio: number;
  /** Waiting and running requests. */
  #present = 0;
  /** The limit that a request did not fit; none is admitted until one finishes or is retracted. */
  #fullBy: "max-num-seqs" | "blocks" | undefined;
  // Budgets of the step that is being planned.
  #promptTokens = 0;
  #chunkTokens = 0;
  /** Tokens reserved for the output of running requests. */
  #reservedTokens = 0;
  #added = 0;

  constructor(order: QueueOrder, rules: Rules, options: Readonly<Record<string, number>>) {
    this.#order = order;
    this.#rules = rules;
    this.#options = options as PrefillFirstOptions;
    this.#firstRatio = this.#ratio = this.#options["init-new-token-ratio"];
    this.#leastRatio = this.#firstRatio * this.#options["min-new-token-ratio-factor"];
  }

  plan(context: SchedulerContext): PlanValidity {
    for (;;) {
      if (context.running.length === 0) this.#fullBy = undefined;
      if (this.#prefill(context)) break;
      if (context.running.length === 0) break;
      if (this.#decode(context)) break;
    }
    if (this.#fullBy !== undefined) context.limitedBy(this.#fullBy);
    // Only a plan that considers waiting requests depends on the ratio and on orders that use random numbers.
    return this.#fullBy !== undefined || context.waitingCount === 0 ? "until-change" : undefined;
  }

  repeated(steps: number): void {
    this.#decodeSteps += steps;
  }

  arrived(): void {
    // After an idle period the ratio is reset.
    if (this.#present++ === 0) this.#setRatio(this.#firstRatio);
  }

  finished(): void {
    this.#present--;
    this.#fullBy = undefined;
  }

  /** Share of the remaining maximum output that is reserved; repeated steps lower it as planned steps do. */
  get newTokenRatio(): number {
    const count = this.#decodeSteps;
    if (count === 0) return this.#ratio;
    const decay = (this.#firstRatio - this.#leastRatio) / this.#options["new-token-ratio-decay-steps"];
    return Math.max(this.#leastRatio, this.#ratio - count * decay);
  }

  #setRatio(ratio: number): void {
    this.#ratio = ratio;
    this.#decodeSteps = 0;
  }

  /** Plans a prefill step; returns whether it is not empty. */
  #prefill(context: SchedulerContext): boolean {
    const { running } = context;
    const maxRunning = this.#options["max-running-requests"];
    const last = running.length > 0 ? running[running.length - 1] : undefined;
    const chunked = last !== undefined && !isDecoding(last) ? last : undefined;
    if (chunked === undefined) {
      if (context.firstWaiting === undefined || this.#fullBy !== undefined) return false;
      if (running.length >= maxRunning) {
        this.#fullBy = "max-num-seqs";
        return false;
      }
    }
    this.#setBudgets(context, chunked);
    if (chunked !== undefined && !this.#continuePrefill(context, chunked)) return false;
    const decoding = chunked === undefined ? running.length : running.length - 1;
    for (const sequence of this.#order(context) ?? inOrderOfArrival(context)) {
      if (running.length >= maxRunning) {
        this.#fullBy = "max-num-seqs";
        break;
      }
      if (refuseTooLong(context, sequence, this.#rules)) this.#present--;
      else if (!this.#add(context, sequence)) break;
    }
    if (this.#added === 0) return false;
    if (this.#options["mixed-chunk"] === 1) {
      for (let i = 0; i < decoding; i++) if (isDecoding(running[i])) context.schedule(running[i]);
    }
    return true;
  }

  #setBudgets(context: SchedulerContext, chunked: SequenceView | undefined): void {
    const { running, blockTokens } = context;
    const ratio = this.newTokenRatio;
    let outputTokens = 0;
    for (const each of running) if (each !== chunked) outputTokens += this.#remainingOutput(context, each) * ratio;
    const mixed = this.#options["mixed-chunk"] === 1 ? running.length - (chunked === undefined ? 0 : 1) : 0;
    const chunk = this.#options["chunked-prefill-size"];
    const wholeBlocks = Math.max(blockTokens, Math.floor(chunk / blockTokens) * blockTokens);
    this.#promptTokens = this.#options["max-prefill-tokens"] - mixed;
    this.#chunkTokens = chunk === 0 ? Number.POSITIVE_INFINITY : wholeBlocks - mixed;
    this.#reservedTokens = mixed + outputTokens;
    this.#added = 0;
  }

  /** Schedules the next chunk of a prompt. */
  #continuePrefill(context: SchedulerContext, chunked: SequenceView): boolean {
    const left = chunked.knownTokens - chunked.computedTokens;
    const tokens = Math.min(left, this.#chunkTokens);
    if (tokens <= 0 || !context.schedule(chunked, tokens)) return false;
    this.#charge(context, tokens, tokens === left ? this.#remainingOutput(context, chunked) : 0);
    return true;
  }

  /** Admits a waiting request, or its first chunk; returns whether the next one may be tried. */
  #add(context: SchedulerContext, sequence: SequenceView): boolean {
    const { running, blockTokens } = context;
    const isIdle = running.length === 0;
    const left = Math.max(1, sequence.knownTokens - context.cachedTokens(sequence));
    const outputTokens = this.#remainingOutput(context, sequence);
    const blocksOfLeft = Math.ceil(left / blockTokens) * blockTokens;
    if (!isIdle) {
      const availableTokens = context.availableBlocks * blockTokens - this.#reservedTokens;
      if (left + outputTokens >= availableTokens) return this.#stopAdmissions();
      if (blocksOfLeft >= this.#promptTokens && this.#added > 0) return outOfTokens(context);
    }
    const isChunked = blocksOfLeft > this.#chunkTokens;
    if (isChunked && this.#chunkTokens < blockTokens) return outOfTokens(context);
    const tokens = isChunked ? Math.floor(this.#chunkTokens / blockTokens) * blockTokens : left;
    // Idle blocks of its cached prefix are not available any more, and the later chunks of its prompt need blocks, too.
    const spare = isIdle ? 0 : Math.floor((this.#reservedTokens + outputTokens + left - tokens) / blockTokens) + 1;
    if (!context.admit(sequence, tokens, spare)) {
      if (!isIdle) return this.#stopAdmissions();
      refuseOutOfBlocks(context, sequence);
      this.#present--;
      return true;
    }
    this.#charge(context, tokens, isChunked ? 0 : outputTokens);
    const isExhausted = context.availableBlocks * blockTokens <= this.#reservedTokens;
    if (isExhausted) return this.#stopAdmissions();
    return isChunked || this.#promptTokens <= 0 || this.#chunkTokens <= 0 ? outOfTokens(context) : true;
  }

  #stopAdmissions(): false {
    this.#fullBy = "blocks";
    return false;
  }

  /** Subtracts a request's prompt tokens and its reserved output tokens from the budgets. */
  #charge({ blockTokens }: SchedulerContext, tokens: number, outputTokens: number): void {
    const rounded = Math.ceil(tokens / blockTokens) * blockTokens;
    this.#promptTokens -= rounded;
    this.#chunkTokens -= rounded;
    this.#reservedTokens += outputTokens;
    this.#added++;
  }

  /** Tokens that a request may still generate, up to `clip-max-new-tokens`. */
  #remainingOutput({ totalBlocks, blockTokens }: SchedulerContext, { request, generatedTokens }: SequenceView): number {
    const longest = totalBlocks === undefined ? request.maxOutputTokens : maxOutput(request, totalBlocks * blockTokens);
    return Math.max(0, Math.min(longest - generatedTokens, this.#options["clip-max-new-tokens"]));
  }

  /** Schedules a token of every decoding request that has a block; returns false if no request is left. */
  #decode(context: SchedulerContext): boolean {
    const { running } = context;
    const blocks = blocksToDecode(context);
    if (blocks === 0 || blocks <= context.availableBlocks) this.#decodeSteps++;
    else this.#retract(context);
    while (!decodeAll(context)) {
      if (running.length > 1) {
        this.#retract(context);
        continue;
      }
      // The only request has all blocks.
      refuseOutOfBlocks(context, running[0]);
      this.#present--;
      return false;
    }
    return true;
  }

  /** Retracts the requests with the fewest output tokens until the others have blocks for some steps. */
  #retract(context: SchedulerContext): void {
    const { running, blockTokens } = context;
    const steps = this.#options["retract-decode-steps"];
    let isFirst = true;
    while (running.length > 1 && (isFirst || context.availableBlocks * blockTokens < running.length * steps)) {
      isFirst = false;
      context.preempt(fewestOutputs(running), "recompute", "tail");
    }
    let generated = 0;
    let longest = 0;
    for (const { request, generatedTokens } of running) {
      generated += generatedTokens;
      longest += request.maxOutputTokens;
    }
    this.#setRatio(Math.min(1, (generated + steps * running.length) / Math.max(1, longest)));
    this.#fullBy = undefined;
  }
}

/** The prompts of the step use the whole budget. */
function outOfTokens(context: SchedulerContext): false {
  context.limitedBy("token-budget");
  return false;
}

/** SGLang limits `maxOutputTokens` to the capacity of the cache. */
const maxOutput = (
  { inputTokens, maxOutputTokens }: { readonly inputTokens: number; readonly maxOutputTokens: number },
  capacityTokens: number,
) => Math.max(0, Math.min(maxOutputTokens, capacityTokens - inputTokens - 1));

/** The request with the fewest output tokens; on a tie the one with the longest prompt, then the last. */
function fewestOutputs(running: readonly SequenceView[]): SequenceView {
  let chosen = running[0];
  for (const each of running) {
    const difference =
      chosen.generatedTokens - each.generatedTokens || each.request.inputTokens - chosen.request.inputTokens;
    if (difference >= 0) chosen = each;
  }
  return chosen;
}

function* inOrderOfArrival({ firstWaiting }: SchedulerContext): Generator<SequenceView> {
  for (let sequence = firstWaiting; sequence !== undefined; ) {
    // Its admission changes `next`.
    const { next } = sequence;
    yield sequence;
    sequence = next;
  }
}
