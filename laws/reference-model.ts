import type { IndexPlugin } from "../core/plugins/index.ts";
import type { Rules } from "../core/plugins/rules.ts";
import { prefixOf, type Workload, type WorkloadRequest } from "./workloads.ts";

/** The expected result of an admission, in blocks and tokens. */
export interface Expected {
  /** Blocks of the longest stored prefix. */
  readonly matched: number;
  /** Of these, the blocks that the rules allow as hits. */
  readonly hitBlocks: number;
  readonly hitTokens: number;
  /** Tokens of the hit blocks: one more than the hits if the rules count a recomputed last token as a miss. */
  readonly cachedTokens: number;
  /** Tokens of a partial match of the next block that the rules allow in addition. */
  readonly partialTokens: number;
}

/**
 * The reference model of a cache, without hashes, blocks or columns: a set of prefixes, each as its tokens. A request
 * matches a prefix if the set has it and all of its shorter prefixes that end at a block boundary.
 */
export class ReferenceModel {
  readonly blockTokens: number;
  readonly rules: Rules;
  /** Whether a prompt's partial last block can be matched: only if the trace has an id for it. */
  readonly #partialBlocks: boolean;
  readonly #unitTokens: number;
  readonly #unit: IndexPlugin["unit"];

  constructor(blockTokens: number, unitTokens: number, rules: Rules, unit: IndexPlugin["unit"]) {
    this.blockTokens = blockTokens;
    this.rules = rules;
    this.#unit = unit;
    this.#partialBlocks = unitTokens > 1 || unit === "prompt";
    this.#unitTokens = unitTokens;
  }

  promptBlocks(request: WorkloadRequest): number {
    const blocks = request.prompt.length / this.blockTokens;
    return this.#partialBlocks ? Math.ceil(blocks) : Math.floor(blocks);
  }

  /** Tokens whose KV is cached when the request finishes. */
  #knownTokens({ prompt, output }: WorkloadRequest): number {
    // The last generated token is never computed.
    return prompt.length + (this.rules["cache-generated"] === "true" ? Math.max(0, output.length - 1) : 0);
  }

  /** End of block i of the request, in tokens. */
  blockEnd(request: WorkloadRequest, i: number): number {
    const end = (i + 1) * this.blockTokens;
    if (i < this.promptBlocks(request)) return Math.min(end, request.prompt.length);
    return this.rules["store-tail"] === "true" ? Math.min(end, this.#knownTokens(request)) : end;
  }

  /** Number of blocks of the request that are stored after it finished. */
  storedBlocks(request: WorkloadRequest): number {
    const blocks = this.#knownTokens(request) / this.blockTokens;
    if (this.#unit !== undefined) return this.#wholePrefixBlocks(request);
    return Math.max(
      this.promptBlocks(request),
      this.rules["store-tail"] === "true" ? Math.ceil(blocks) : Math.floor(blocks),
    );
  }

  /** Number of blocks of an index of whole prompts or marked prefixes. */
  #wholePrefixBlocks(request: WorkloadRequest): number {
    return this.#unit === "prompt" ? this.promptBlocks(request) : Math.floor(request.markedTokens / this.blockTokens);
  }

  /** Whether a match can end with block i of this request; for whole prefixes only at their end. */
  isMatchable(request: WorkloadRequest, i: number): boolean {
    return this.#unit === undefined || this.#unit === "marked-paths" || i === this.#wholePrefixBlocks(request) - 1;
  }

  /** The prefix that ends with block i. */
  contentOf(request: WorkloadRequest, i: number): string {
    return prefixOf(request, this.blockEnd(request, i));
  }

  /** The expected match of a request with `generated` output tokens among the stored prefixes. */
  expected(request: WorkloadRequest, generated: number, stored: ReadonlySet<string>): Expected {
    const known = request.prompt.length + generated;
    // A partial block is matched by its prompt alone: after it, the block may contain output tokens of any request.
    const isPartial = this.#partialBlocks && request.prompt.length % this.blockTokens > 0;
    const withOutput = this.rules["cache-generated"] === "true" && !isPartial;
    const all = Math.max(this.promptBlocks(request), withOutput ? Math.floor(known / this.blockTokens) : 0);
    const blocks = this.#unit === undefined ? all : this.#wholePrefixBlocks(request);
    let matched = 0;
    if (this.#unit === "prompt" || this.#unit === "marked") {
      if (blocks > 0 && stored.has(this.contentOf(request, blocks - 1))) matched = blocks;
    } else {
      while (matched < blocks && stored.has(this.contentOf(request, matched))) matched++;
    }
    let usable = matched;
    if (this.rules["match-limit"] !== "all") usable = Math.min(usable, Math.floor((known - 1) / this.blockTokens));
    const hitBlocks = Math.max(0, usable - this.rules["drop-blocks"]);
    const cachedTokens = hitBlocks === 0 ? 0 : Math.min(known, this.blockEnd(request, hitBlocks - 1));
    const partialTokens = this.#partialMatch(request, known, hitBlocks, matched, stored);
    const isMissed = this.rules["full-hit"] === "rewrite-miss" && cachedTokens + partialTokens === known;
    return {
      matched,
      hitBlocks,
      hitTokens: isMissed && partialTokens === 0 ? known - 1 : cachedTokens,
      cachedTokens,
      partialTokens: isMissed && partialTokens > 0 ? partialTokens - 1 : partialTokens,
    };
  }

  #partialMatch(
    request: WorkloadRequest,
    known: number,
    hitBlocks: number,
    matched: number,
    stored: ReadonlySet<string>,
  ): number {
    const { rules, blockTokens } = this;
    const begin = hitBlocks * blockTokens;
    if (rules.partial === "none" || rules["drop-blocks"] > 0) return 0;
    if (rules["match-limit"] === "block-before-l" && begin + blockTokens >= known) return 0;
    // The compared range ends with the stored block, or with the prompt.
    const end =
      hitBlocks < matched ? this.blockEnd(request, hitBlocks) : Math.min(begin + blockTokens, request.prompt.length);
    const usable = Math.min(end, known - (rules["match-limit"] === "all" ? 0 : 1)) - begin;
    if (hitBlocks < matched) return Math.max(0, usable);
    let most = 0;
    for (const content of stored) {
      const [namespace, tokens] = JSON.parse(content) as [number, number[]];
      if (namespace === request.namespace && tokens.length > begin && tokens.length <= begin + blockTokens)
        most = Math.max(most, this.#common(tokens, request.prompt.slice(0, end)) - begin);
    }
    return Math.max(0, Math.min(most, usable));
  }

  /**
   * Length of the common beginning of two prefixes, in whole units of the trace; a partial last unit counts only if both
   * prefixes end with it.
   */
  #common(a: readonly number[], b: readonly number[]): number {
    let count = 0;
    while (count < Math.min(a.length, b.length)) {
      const [ofA, ofB] = [a, b].map((tokens) => tokens.slice(count, count + this.#unitTokens));
      if (ofA.length !== ofB.length || ofA.some((token, i) => token !== ofB[i])) break;
      count += ofA.length;
    }
    return count;
  }
}

/** Hits of every request in an unlimited cache, one request at a time. */
export function modelledUnlimitedHits(
  { unitTokens, requests }: Workload,
  { blockUnits, index }: { readonly blockUnits: number; readonly index: IndexPlugin },
  rules: Rules,
): { blocks: number[]; tokens: number[] } {
  const model = new ReferenceModel(unitTokens * blockUnits, unitTokens, rules, index.unit);
  const stored = new Set<string>();
  const found = requests.map((request) => {
    const expected = model.expected(request, 0, stored);
    const blocks = model.storedBlocks(request);
    for (let i = 0; i < blocks; i++) if (model.isMatchable(request, i)) stored.add(model.contentOf(request, i));
    return expected;
  });
  return {
    blocks: found.map(({ hitBlocks }) => hitBlocks),
    tokens: found.map(({ hitTokens, partialTokens }) => hitTokens + partialTokens),
  };
}
