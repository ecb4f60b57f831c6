import { usableBlocks } from "../../core/cache/lookup.ts";
import { grown } from "../../core/grown.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { Metric } from "../output/hit-ratios.ts";
import type { PackingBound } from "./packing.ts";
import { packingBound } from "./prices.ts";

/** Facts of a configuration that its bound depends on. */
export interface BoundedCache {
  /** Size of the cache, in blocks. */
  readonly blocks: number;
  readonly blockTokens: number;
  readonly rules: Pick<Rules, "match-limit" | "drop-blocks" | "reserve" | "cache-generated" | "node-match">;
  /** Leading requests that are in no metric. */
  readonly warmup?: number | undefined;
  /** Requests that were refused although they fit: they may have occupied no block. */
  readonly refused?: ReadonlySet<number> | undefined;
}

export interface ItemSize {
  /** Tokens of an item; divides the block size. */
  readonly itemTokens: number;
  /** Tokens are hit in parts of blocks, so that items are units of the trace. */
  readonly isPartial: boolean;
}

/**
 * The reuse of a trace's content: each pair of consecutive requests that contain the same content is an interval, which ends
 * with a hit if the content stays cached over it. `add` is called with all batches in order.
 *
 * Items are blocks of the cache or, for tokens that are hit in parts of blocks, units of the trace; a block has one or more
 * slots for items. Memory: 4 bytes per content id, 16 per request, and 16 for each run of items with the same interval.
 */
export class ReuseIntervals {
  readonly #cache: BoundedCache;
  readonly #items: ItemSize;
  /** By content id: one more than the last request that contains it. */
  #last = new Uint32Array(1024);
  #requests = 0;
  /** By request: slots for content that it does not contain; prompt items; prompt tokens. */
  #free = new Float64Array(1024);
  #promptItems = new Uint32Array(1024);
  #inputTokens = new Uint32Array(1024);
  #runs = 0;
  #start = new Uint32Array(1024);
  #end = new Uint32Array(1024);
  #copies = new Uint32Array(1024);
  /** By run: tokens of each item that can be hits; 0: the rules exclude the item. */
  #tokens = new Uint32Array(1024);
  /** Requests that need more blocks than the cache has. */
  tooLong = 0;

  constructor(cache: BoundedCache, items: ItemSize) {
    this.#cache = cache;
    this.#items = items;
  }

  /** `blocks`: the content ids of the items. */
  add(trace: Trace, { keys, start, promptBlocks, distinct }: BlockColumns): void {
    const { blocks, blockTokens, rules, refused, warmup = 0 } = this.#cache;
    if (distinct > this.#last.length) this.#last = grown(this.#last, Math.max(distinct, 2 * this.#last.length));
    const slots = blockTokens / this.#items.itemTokens;
    for (let row = 0; row < trace.requestCount; row++) {
      const request = this.#requests++;
      this.#growRequests();
      this.#promptItems[request] = promptBlocks[row];
      this.#inputTokens[request] = trace.inputTokens[row];
      const admitted = promptBlocksOf(trace, row, this.#cache);
      const finished = finishedBlocksOf(trace, row, this.#cache);
      const isTooLong = admitted > blocks;
      const fitsOutput = finished <= blocks;
      // A node that is protected as a whole may leave too few blocks for the output.
      const isOutputCertain = fitsOutput && rules["node-match"] !== "whole";
      const occupied = isOutputCertain ? Math.max(admitted, finished) : admitted;
      const mayBeRefused = isTooLong || refused?.has(request) === true;
      this.#free[request] = slots * (blocks - (mayBeRefused ? 0 : occupied));
      if (isTooLong) {
        this.tooLong++;
        continue;
      }
      const usable = this.#usableTokens(trace.inputTokens[row], promptBlocks[row]);
      this.#addRuns(keys, start[row], promptBlocks[row], usable, request, request >= warmup);
      if (!fitsOutput) continue;
      for (let at = start[row] + promptBlocks[row]; at < start[row + 1]; at++) this.#last[keys[at]] = request + 1;
    }
  }

  /** Leading tokens of a prompt that the rules allow as hits. */
  #usableTokens(inputTokens: number, promptItems: number): number {
    const { rules, blockTokens } = this.#cache;
    const isLimited = rules["match-limit"] !== "all";
    if (this.#items.isPartial) return isLimited ? inputTokens - 1 : inputTokens;
    const blocks = usableBlocks(promptItems, inputTokens, blockTokens, isLimited, rules["drop-blocks"]);
    return Math.min(blocks * blockTokens, inputTokens);
  }

  /** Adds the intervals that end with the prompt's items. Consecutive items with the same interval and tokens are one run. */
  #addRuns(
    keys: Uint32Array,
    from: number,
    count: number,
    usableTokens: number,
    request: number,
    isMeasured: boolean,
  ): void {
    const last = this.#last;
    const size = this.#items.itemTokens;
    let runStart = 0;
    let runTokens = 0;
    let copies = 0;
    for (let i = 0; i < count; i++) {
      const key = keys[from + i];
      const start = last[key];
      const tokens = Math.max(0, Math.min(size, usableTokens - i * size));
      if (copies > 0 && (start !== runStart || tokens !== runTokens)) {
        this.#addRun(runStart - 1, request, copies, runTokens);
        copies = 0;
      }
      runStart = start;
      runTokens = tokens;
      if (start > 0 && isMeasured) copies++;
      last[key] = request + 1;
    }
    if (copies > 0) this.#addRun(runStart - 1, request, copies, runTokens);
  }

  #addRun(start: number, end: number, copies: number, tokens: number): void {
    const at = this.#runs++;
    if (at === this.#start.length) {
      this.#start = grown(this.#start, 2 * at);
      this.#end = grown(this.#end, 2 * at);
      this.#copies = grown(this.#copies, 2 * at);
      this.#tokens = grown(this.#tokens, 2 * at);
    }
    this.#start[at] = start;
    this.#end[at] = end;
    this.#copies[at] = copies;
    this.#tokens[at] = tokens;
  }

  #growRequests(): void {
    const { length } = this.#free;
    if (this.#requests <= length) return;
    this.#free = grown(this.#free, 2 * length);
    this.#promptItems = grown(this.#promptItems, 2 * length);
    this.#inputTokens = grown(this.#inputTokens, 2 * length);
  }

  /** The numerator of a hit ratio that no eviction policy exceeds: hits, or the sum of the ratios of all requests. */
  bound(metric: Metric): PackingBound {
    const hitValue = this.#hitValues(metric);
    const order: number[] = [];
    for (let run = 0; run < this.#runs; run++) if (hitValue(run) > 0) order.push(run);
    order.sort((a, b) => this.#start[a] - this.#start[b]);
    const columnOf = (column: Uint32Array) => Uint32Array.from(order, (run) => column[run]);
    return packingBound({
      free: this.#free.subarray(0, this.#requests),
      start: columnOf(this.#start),
      end: columnOf(this.#end),
      copies: columnOf(this.#copies),
      weight: Float64Array.from(order, hitValue),
    });
  }

  /** The value of a hit of each item of a run. */
  #hitValues(metric: Metric): (run: number) => number {
    const tokens = this.#tokens;
    switch (metric) {
      case "block":
        return (run) => (tokens[run] > 0 ? 1 : 0);
      case "token":
        return (run) => tokens[run];
      case "fullBlock":
        return (run) => (tokens[run] === this.#items.itemTokens ? 1 : 0);
      case "anyResidentBlock":
        return () => 1;
      case "requestMeanBlock":
        return (run) => (tokens[run] > 0 ? 1 / this.#promptItems[this.#end[run]] : 0);
      case "requestMeanToken":
        return (run) => tokens[run] / this.#inputTokens[this.#end[run]];
    }
  }
}

/** Blocks that a request references at once when its prompt has been computed: those of its prompt and of its reserved output. */
function promptBlocksOf(trace: Trace, row: number, { rules, blockTokens }: BoundedCache): number {
  const reserved = rules.reserve === "worst-case" ? Math.max(0, trace.maxOutputTokens[row] - 1) : 0;
  return Math.ceil((trace.inputTokens[row] + reserved) / blockTokens);
}

/** The same when it has finished, if its output is cached. Output tokens are computed only if all of them fit. */
function finishedBlocksOf(trace: Trace, row: number, { rules, blockTokens }: BoundedCache): number {
  if (rules["cache-generated"] !== "true") return 0;
  return Math.ceil((trace.inputTokens[row] + Math.max(0, trace.outputTokens[row] - 1)) / blockTokens);
}
