import type {
  PlanValidity,
  PluginOption,
  Scheduler,
  SchedulerContext,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { blocksToDecode, decodeAll, isDecoding } from "./decode-steps.ts";
import { refuseForRoom, refuseTooLong } from "./room.ts";

/** Names and figures are SGLang's, of its `ServerArgs` and (the last six) of its environment. */
export const prefillFirstOptions = {
  "max-running-requests": { about: "most requests that run", default: 2048, min: 1 },
  "max-prefill-tokens": { about: "most prompt tokens of a step, unless it is one request's", default: 16384, min: 1 },
  "chunked-prefill-size": {
    about: "most prompt tokens of a step, the last request cut to fit; 0: no request is cut",
    default: 8192,
  },
  "mixed-chunk": { about: "1: a step that computes prompts decodes, too", default: 0, max: 1 },
  "init-new-token-ratio": {
    about: "share of its longest answer that room is kept for, at first",
    default: 0.7,
    max: 1,
    fraction: true,
  },
  "min-new-token-ratio-factor": {
    about: "the least share, as a part of the first one",
    default: 0.14,
    max: 1,
    fraction: true,
  },
  "new-token-ratio-decay-steps": { about: "decode steps from the first share to the least", default: 600, min: 1 },
  "clip-max-new-tokens": { about: "longer answers count as this long", default: 4096, min: 1 },
  "retract-decode-steps": { about: "steps that there is to be room for after a retraction", default: 20, min: 1 },
} as const satisfies Record<string, PluginOption>;

type PrefillFirstOptions = Readonly<Record<keyof typeof prefillFirstOptions, number>>;

/** The waiting requests in the order of admission; undefined: in order of arrival. */
export type QueueOrder = (context: SchedulerContext) => Iterable<SequenceView> | undefined;

/**
 * Continuous batching with prefill first: while waiting requests fit, steps compute prompts and none decodes. Budgets are
 * those of SGLang's `PrefillAdder`: prompt tokens of a step, of which those of the last request are cut to fit a chunk, and
 * the tokens that running requests may still generate. Only a share of these is reserved, the new-token ratio, which falls
 * with every decode step. When a decode finds no block, the running requests with the fewest output tokens are retracted
 * to the tail of the queue, and the ratio is set to the need of the others. A request that does not fit blocks admissions
 * until a running one finishes.
 *
 * Source: SGLang, managers/scheduler.py (`get_new_batch_prefill`, `update_running_batch`), schedule_policy.py
 * (`PrefillAdder`), schedule_batch.py (`retract_decode`).
 */
export class PrefillFirst implements Scheduler {
  readonly #order: QueueOrder;
  readonly #rules: Rules;
  readonly #options: PrefillFirstOptions;
  /** Share of the longest outputs that is reserved, before decode steps lower it. */
  #ratio: number;
  /** Decode steps since the ratio was set. */
  #decodeSteps = 0;
  readonly #firstRatio: number;
  readonly #leastRatio: number;
  /** Waiting and running requests. */
  #present = 0;
  /** A request did not fit; none is admitted until one finishes or is retracted. */
  #isFull = false;
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
      if (context.running.length === 0) this.#isFull = false;
      if (this.#prefill(context)) break;
      if (context.running.length === 0) break;
      if (this.#decode(context)) break;
    }
    // The ratio counts, and orders may draw random numbers, only where waiting requests are looked at.
    return this.#isFull || context.waitingCount === 0 ? "until-change" : undefined;
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
    this.#isFull = false;
  }

  /** Share of their longest answers that room is kept for; the same whether steps come one by one or at once. */
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

  /** Puts a prefill step together; returns whether there is one. */
  #prefill(context: SchedulerContext): boolean {
    const { running } = context;
    const mostRunning = this.#options["max-running-requests"];
    const last = running.length > 0 ? running[running.length - 1] : undefined;
    const cut = last !== undefined && !isDecoding(last) ? last : undefined;
    if (cut === undefined) {
      if (context.firstWaiting === undefined || this.#isFull) return false;
      if (running.length >= mostRunning) {
        this.#isFull = true;
        return false;
      }
    }
    this.#openBudgets(context, cut);
    if (cut !== undefined && !this.#goOn(context, cut)) return false;
    const decoding = cut === undefined ? running.length : running.length - 1;
    for (const sequence of this.#order(context) ?? inOrderOfArrival(context)) {
      if (running.length >= mostRunning) {
        this.#isFull = true;
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

  #openBudgets(context: SchedulerContext, cut: SequenceView | undefined): void {
    const { running, blockTokens } = context;
    const ratio = this.newTokenRatio;
    let toWrite = 0;
    for (const each of running) if (each !== cut) toWrite += this.#leftToWrite(context, each) * ratio;
    const mixed = this.#options["mixed-chunk"] === 1 ? running.length - (cut === undefined ? 0 : 1) : 0;
    const chunk = this.#options["chunked-prefill-size"];
    const wholeBlocks = Math.max(blockTokens, Math.floor(chunk / blockTokens) * blockTokens);
    this.#promptTokens = this.#options["max-prefill-tokens"] - mixed;
    this.#chunkTokens = chunk === 0 ? Number.POSITIVE_INFINITY : wholeBlocks - mixed;
    this.#reservedTokens = mixed + toWrite;
    this.#added = 0;
  }

  /** Schedules the next chunk of a prompt that was cut. */
  #goOn(context: SchedulerContext, cut: SequenceView): boolean {
    const left = cut.knownTokens - cut.computedTokens;
    const tokens = Math.min(left, this.#chunkTokens);
    if (tokens <= 0 || !context.schedule(cut, tokens)) return false;
    this.#take(context, tokens, tokens === left ? this.#leftToWrite(context, cut) : 0);
    return true;
  }

  /** Admits a waiting request, or its first chunk; returns whether the next one may be tried. */
  #add(context: SchedulerContext, sequence: SequenceView): boolean {
    const { running, blockTokens } = context;
    const isAlone = running.length === 0;
    const left = Math.max(1, sequence.knownTokens - context.cachedTokens(sequence));
    const toWrite = this.#leftToWrite(context, sequence);
    const blocksOfLeft = Math.ceil(left / blockTokens) * blockTokens;
    if (!isAlone) {
      const room = context.availableBlocks * blockTokens - this.#reservedTokens;
      if (left + toWrite >= room) return this.#close();
      if (blocksOfLeft >= this.#promptTokens && this.#added > 0) return false;
    }
    const isCut = blocksOfLeft > this.#chunkTokens;
    if (isCut && this.#chunkTokens < blockTokens) return false;
    const tokens = isCut ? Math.floor(this.#chunkTokens / blockTokens) * blockTokens : left;
    // Idle blocks of its cached prefix are not available any more, and the rest of a cut prompt needs blocks, too.
    const spare = isAlone ? 0 : Math.floor((this.#reservedTokens + toWrite + left - tokens) / blockTokens) + 1;
    if (!context.admit(sequence, tokens, spare)) {
      if (!isAlone) return this.#close();
      refuseForRoom(context, sequence);
      this.#present--;
      return true;
    }
    this.#take(context, tokens, isCut ? 0 : toWrite);
    const isOut = context.availableBlocks * blockTokens <= this.#reservedTokens;
    if (isOut) return this.#close();
    return !isCut && this.#promptTokens > 0 && this.#chunkTokens > 0;
  }

  #close(): false {
    this.#isFull = true;
    return false;
  }

  /** Subtracts a request's prompt tokens and its reserved output tokens from the budgets. */
  #take({ blockTokens }: SchedulerContext, tokens: number, toWrite: number): void {
    const rounded = Math.ceil(tokens / blockTokens) * blockTokens;
    this.#promptTokens -= rounded;
    this.#chunkTokens -= rounded;
    this.#reservedTokens += toWrite;
    this.#added++;
  }

  /** Tokens that a request may still generate, up to `clip-max-new-tokens`. */
  #leftToWrite({ totalBlocks, blockTokens }: SchedulerContext, { request, generatedTokens }: SequenceView): number {
    const longest =
      totalBlocks === undefined ? request.maxOutputTokens : mostOutput(request, totalBlocks * blockTokens);
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
      refuseForRoom(context, running[0]);
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
    let written = 0;
    let longest = 0;
    for (const { request, generatedTokens } of running) {
      written += generatedTokens;
      longest += request.maxOutputTokens;
    }
    this.#setRatio(Math.min(1, (written + steps * running.length) / Math.max(1, longest)));
    this.#isFull = false;
  }
}

/** SGLang limits `maxOutputTokens` to the capacity of the cache. */
const mostOutput = (
  { inputTokens, maxOutputTokens }: { readonly inputTokens: number; readonly maxOutputTokens: number },
  capacityTokens: number,
) => Math.max(0, Math.min(maxOutputTokens, capacityTokens - inputTokens - 1));

/** Of those with the fewest output tokens the one with the longest prompt, of these the last. */
function fewestOutputs(running: readonly SequenceView[]): SequenceView {
  let chosen = running[0];
  for (const each of running) {
    const fewer =
      chosen.generatedTokens - each.generatedTokens || each.request.inputTokens - chosen.request.inputTokens;
    if (fewer >= 0) chosen = each;
  }
  return chosen;
}

function* inOrderOfArrival({ firstWaiting }: SchedulerContext): Generator<SequenceView> {
  for (let sequence = firstWaiting; sequence !== undefined; ) {
    // Once admitted it has another place.
    const { next } = sequence;
    yield sequence;
    sequence = next;
  }
}
