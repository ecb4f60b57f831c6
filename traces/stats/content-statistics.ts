import { grown } from "../../core/grown.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { ReuseDistances } from "./reuse-distance.ts";
import type { Timeline } from "./timeline.ts";
import { type Spread, ValueCounts } from "./value-counts.ts";

/** A prefix with which several requests begin. */
export interface SharedPrefix {
  /** Content id of the prefix's last block. */
  readonly key: number;
  /** Requests that begin with it. */
  readonly requests: number;
  readonly tokens: number;
}

/** Statistics of shared blocks. */
export interface ContentStats {
  readonly blockTokens: number;
  readonly distinctBlocks: number;
  readonly blockReferences: number;
  /** Share of references to blocks seen before: the block hit ratio of an unlimited cache. */
  readonly repeatedShare: number;
  /** Different blocks between two uses of a block, over all repeated references. */
  readonly reuseDistanceBlocks: Spread | undefined;
  /** Length of the prefix of each prompt that an earlier prompt has too; 0 for prompts without one. */
  readonly repeatedPrefixTokens: Spread;
  /**
   * The most frequent prefixes, each extended as far as all its requests agree; at most ten, each with at least two requests.
   */
  readonly sharedPrefixes: readonly SharedPrefix[];
}

const prefixesShown = 10;
const none = 0xffff_ffff;

/** Statistics of content ids, batch by batch. Memory depends on the number of distinct blocks. */
export class ContentStatistics {
  readonly distances = new ReuseDistances();
  /** Tokens of each prompt's prefix that was seen before. */
  readonly repeatedPrefixes = new ValueCounts();
  /** By block, the requests that contain it. */
  requestsOf: Uint32Array = new Uint32Array(1024);
  distinct = 0;
  references = 0;
  readonly #blockTokens: number;
  readonly #timeline: Timeline;
  /** By block, the tokens of the prefix that ends with it. */
  #tokens: Uint32Array = new Uint32Array(1024);
  /** By block, the block before it. */
  #before: Uint32Array = new Uint32Array(1024);

  constructor(blockTokens: number, timeline: Timeline) {
    this.#blockTokens = blockTokens;
    this.#timeline = timeline;
  }

  /** Adds the prompt of row `r`; blocks of output tokens are not counted. */
  add({ keys, start, promptBlocks, distinct }: BlockColumns, r: number, inputTokens: number): void {
    if (distinct > this.#tokens.length) this.#grow(distinct);
    let seenBlocks = 0;
    let before = none;
    for (let i = 0; i < promptBlocks[r]; i++) {
      const key = keys[start[r] + i];
      if (this.distances.add(key) < 0) {
        this.distinct++;
        this.#before[key] = before;
        this.#tokens[key] = Math.min((i + 1) * this.#blockTokens, inputTokens);
      } else if (seenBlocks === i) seenBlocks++;
      this.requestsOf[key]++;
      this.#timeline.addKey(key);
      before = key;
    }
    this.references += promptBlocks[r];
    this.repeatedPrefixes.add(Math.min(seenBlocks * this.#blockTokens, inputTokens));
  }

  stats(): ContentStats {
    const { references, distinct } = this;
    return {
      blockTokens: this.#blockTokens,
      distinctBlocks: distinct,
      blockReferences: references,
      repeatedShare: references === 0 ? 0 : (references - distinct) / references,
      reuseDistanceBlocks: references === distinct ? undefined : this.#distanceSpread(),
      repeatedPrefixTokens: this.repeatedPrefixes.spread()!,
      sharedPrefixes: this.#sharedPrefixes(),
    };
  }

  #distanceSpread(): Spread {
    const { counts } = this.distances;
    const total = this.references - this.distinct;
    let weighted = 0;
    let max = 0;
    for (let distance = 0; distance < counts.length; distance++) {
      weighted += distance * counts[distance];
      if (counts[distance] > 0) max = distance;
    }
    const rank = (share: number) => {
      let seen = 0;
      let distance = -1;
      while (seen < Math.ceil(share * total)) seen += counts[++distance];
      return distance;
    };
    return { mean: weighted / total, p50: rank(0.5), p90: rank(0.9), p99: rank(0.99), max };
  }

  /** A prefix that is always followed by the same block is left out in favour of the longer one. */
  #sharedPrefixes(): SharedPrefix[] {
    const requests = this.requestsOf;
    const isContinued = new Uint8Array(requests.length);
    for (let key = 0; key < requests.length; key++) {
      const before = this.#before[key];
      if (requests[key] > 0 && before !== none && requests[before] === requests[key]) isContinued[before] = 1;
    }
    const top: SharedPrefix[] = [];
    for (let key = 0; key < requests.length; key++) {
      if (isContinued[key] === 1 || requests[key] < 2) continue;
      if (top.length === prefixesShown && requests[key] <= top[prefixesShown - 1].requests) continue;
      const at = top.findIndex((shown) => shown.requests < requests[key]);
      top.splice(at < 0 ? top.length : at, 0, { key, requests: requests[key], tokens: this.#tokens[key] });
      top.length = Math.min(top.length, prefixesShown);
    }
    return top;
  }

  #grow(distinct: number): void {
    const length = Math.max(distinct, 2 * this.#tokens.length);
    this.requestsOf = grown(this.requestsOf, length);
    this.#tokens = grown(this.#tokens, length);
    this.#before = grown(this.#before, length);
  }
}
