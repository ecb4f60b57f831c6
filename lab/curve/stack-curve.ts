import { Counters } from "../../core/cache/counters.ts";
import { usableBlocks } from "../../core/cache/lookup.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { type EvictionOrder, RecencyStack } from "./recency-stack.ts";

/** Facts of a configuration on which its curve depends. */
export interface StackCache {
  readonly order: EvictionOrder;
  readonly blockTokens: number;
  readonly rules: Pick<Rules, "match-limit" | "drop-blocks" | "reserve">;
  /** Sizes of the cache in blocks, ascending. */
  readonly sizes: readonly number[];
  /** Leading requests that are in no metric. */
  readonly warmup?: number;
  /** Called with the hits of each measured request at each size with hits. */
  readonly observe?: (request: number, size: number, hitBlocks: number, hitTokens: number) => void;
}

/** Sizes `[from, to)` that have served the same requests so far, and therefore have one stack. */
interface Group {
  readonly from: number;
  readonly to: number;
  readonly stack: RecencyStack;
}

/**
 * The hits of LRU at all sizes, in one pass over a trace. A request that is longer than the cache is refused and has no effect on
 * it, so sizes share a stack until the first request that some of them refuse. `add` is called with all batches in order.
 */
export class StackCurve {
  readonly #cache: StackCache;
  readonly #sizes: Float64Array;
  #groups: Group[];
  #requests = 0;
  readonly #lookups = { requests: 0, blocks: 0, fullBlocks: 0, tokens: 0 };
  // By size.
  readonly #hitBlocks: Float64Array;
  readonly #hitTokens: Float64Array;
  readonly #fullHitBlocks: Float64Array;
  readonly #blockRatioSum: Float64Array;
  readonly #tokenRatioSum: Float64Array;
  readonly #refusedRequests: Float64Array;
  readonly #refusedTokens: Float64Array;
  readonly #residentBlocks: Float64Array;

  constructor(cache: StackCache) {
    const { sizes, order } = cache;
    this.#cache = cache;
    this.#sizes = Float64Array.from(sizes);
    this.#groups = sizes.length === 0 ? [] : [{ from: 0, to: sizes.length, stack: new RecencyStack(order) }];
    const zeros = () => new Float64Array(sizes.length);
    this.#hitBlocks = zeros();
    this.#hitTokens = zeros();
    this.#fullHitBlocks = zeros();
    this.#blockRatioSum = zeros();
    this.#tokenRatioSum = zeros();
    this.#refusedRequests = zeros();
    this.#refusedTokens = zeros();
    this.#residentBlocks = zeros();
  }

  add(trace: Trace, { keys, start, promptBlocks, distinct }: BlockColumns): void {
    const { blockTokens, rules, warmup = 0 } = this.#cache;
    const sizes = this.#sizes;
    for (const { stack } of this.#groups) stack.expectKeys(distinct);
    for (let row = 0; row < trace.requestCount; row++) {
      const blocks = promptBlocks[row];
      const tokens = trace.inputTokens[row];
      const reserved = rules.reserve === "worst-case" ? Math.max(0, trace.maxOutputTokens[row] - 1) : 0;
      const needed = Math.ceil((tokens + reserved) / blockTokens);
      const measured = this.#requests++ >= warmup;
      if (measured) this.#countLookup(blocks, tokens);
      if (needed > sizes[this.#groups[0].from]) this.#refuse(needed, measured ? tokens : 0, measured);
      for (const { from, to, stack } of this.#groups) {
        if (needed > sizes[from]) continue;
        const known = stack.access(keys, start[row], blocks, needed - blocks);
        if (measured && known > 0) this.#countHits(from, to, stack.distances, known, blocks, tokens);
      }
    }
  }

  /** The counters of each size, as those of a replay, as far as hit ratios are computed from them. */
  counters(): Counters[] {
    const { requests, blocks, fullBlocks, tokens } = this.#lookups;
    return Array.from(this.#sizes, (_, i) =>
      Object.assign(new Counters(), {
        lookups: requests,
        lookupBlocks: blocks,
        fullLookupBlocks: fullBlocks,
        lookupTokens: tokens,
        hitBlocks: this.#hitBlocks[i],
        hitTokens: this.#hitTokens[i],
        fullHitBlocks: this.#fullHitBlocks[i],
        residentBlocks: this.#residentBlocks[i],
        blockRatioSum: this.#blockRatioSum[i],
        tokenRatioSum: this.#tokenRatioSum[i],
        refusedRequests: this.#refusedRequests[i],
        refusedTokens: this.#refusedTokens[i],
      }),
    );
  }

  #countLookup(blocks: number, tokens: number): void {
    const lookups = this.#lookups;
    lookups.requests++;
    lookups.blocks += blocks;
    lookups.fullBlocks += Math.floor(tokens / this.#cache.blockTokens);
    lookups.tokens += tokens;
  }

  /** Sizes below `needed` blocks refuse a request: a group that has such sizes and others is divided. */
  #refuse(needed: number, tokens: number, measured: boolean): void {
    const sizes = this.#sizes;
    for (let i = 0; measured && i < sizes.length && sizes[i] < needed; i++) {
      this.#refusedRequests[i]++;
      this.#refusedTokens[i] += tokens;
    }
    const at = this.#groups.findIndex(({ from, to }) => sizes[from] < needed && needed <= sizes[to - 1]);
    if (at < 0) return;
    const { from, to, stack } = this.#groups[at];
    let middle = from;
    while (sizes[middle] < needed) middle++;
    this.#groups = this.#groups.toSpliced(
      at,
      1,
      { from, to: middle, stack: stack.clone() },
      { from: middle, to, stack },
    );
  }

  /** The hits of a prompt at sizes `[from, to)`, of whose blocks the first `known` have these distances. */
  #countHits(
    from: number,
    to: number,
    distances: Int32Array,
    known: number,
    promptBlocks: number,
    tokens: number,
  ): void {
    const { blockTokens, rules, order, observe } = this.#cache;
    const sizes = this.#sizes;
    const isLimited = rules["match-limit"] !== "all";
    const drop = rules["drop-blocks"];
    const fullBlocks = Math.floor(tokens / blockTokens);
    if (order === "forward") this.#countResident(from, to, distances, known);
    // The longest prefix of which every block is cached.
    let cached = 0;
    for (let i = from; i < to; i++) {
      while (cached < known && distances[cached] <= sizes[i]) cached++;
      if (cached === 0) continue;
      if (order === "reverse") this.#residentBlocks[i] += cached;
      const hits = usableBlocks(cached, tokens, blockTokens, isLimited, drop);
      if (hits === 0) continue;
      const hitTokens = Math.min(hits * blockTokens, tokens);
      this.#hitBlocks[i] += hits;
      this.#hitTokens[i] += hitTokens;
      this.#fullHitBlocks[i] += Math.min(hits, fullBlocks);
      this.#blockRatioSum[i] += hits / promptBlocks;
      this.#tokenRatioSum[i] += hitTokens / tokens;
      observe?.(this.#requests - 1, i, hits, hitTokens);
    }
  }

  /** Cached blocks of a prompt of which some are evicted before those that precede them. */
  #countResident(from: number, to: number, distances: Int32Array, known: number): void {
    const sizes = this.#sizes;
    for (let block = 0; block < known; block++)
      for (let i = to - 1; i >= from && sizes[i] >= distances[block]; i--) this.#residentBlocks[i]++;
  }
}
