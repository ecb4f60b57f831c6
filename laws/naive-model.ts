import type { IndexPlugin } from "../core/plugins/index.ts";
import type { Rules } from "../core/plugins/rules.ts";
import { prefixOf, type World, type WorldRequest } from "./worlds.ts";

/** What an admission must find, in blocks and tokens. */
export interface Expected {
  /** Blocks of the longest stored prefix. */
  readonly matched: number;
  /** Of these, those that the rules let the request use. */
  readonly hitBlocks: number;
  readonly hitTokens: number;
  /** Tokens of the next block that a stored one begins with as well, and the rules let it use besides. */
  readonly partTokens: number;
}

/**
 * What a cache is, without hashes, blocks or columns: a set of prefixes, each written out as its tokens. A request may
 * use a prefix if the set has it and all shorter ones that end with a block.
 */
export class NaiveModel {
  readonly blockTokens: number;
  readonly rules: Rules;
  /** Whether a prompt's partial last block can be found: only where a trace gives it an id. */
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

  promptBlocks(ask: WorldRequest): number {
    const blocks = ask.prompt.length / this.blockTokens;
    return this.#partialBlocks ? Math.ceil(blocks) : Math.floor(blocks);
  }

  /** Tokens whose keys and values are cached when the request ends. */
  #knownTokens({ prompt, answer }: WorldRequest): number {
    // The last generated token is never computed.
    return prompt.length + (this.rules["cache-generated"] === "true" ? Math.max(0, answer.length - 1) : 0);
  }

  /** Where block i of the request ends, in tokens. */
  blockEnd(ask: WorldRequest, i: number): number {
    const end = (i + 1) * this.blockTokens;
    if (i < this.promptBlocks(ask)) return Math.min(end, ask.prompt.length);
    return this.rules["store-tail"] === "true" ? Math.min(end, this.#knownTokens(ask)) : end;
  }

  /** Blocks that are stored of the request when it has ended. */
  storedBlocks(ask: WorldRequest): number {
    const blocks = this.#knownTokens(ask) / this.blockTokens;
    if (this.#unit !== undefined) return this.#part(ask);
    return Math.max(
      this.promptBlocks(ask),
      this.rules["store-tail"] === "true" ? Math.ceil(blocks) : Math.floor(blocks),
    );
  }

  /** Blocks of the prompt that are stored and found, if not all: all at once. */
  #part(ask: WorldRequest): number {
    return this.#unit === "prompt" ? this.promptBlocks(ask) : Math.floor(ask.markedTokens / this.blockTokens);
  }

  /** Whether a request can find block i of this one by itself; where whole prefixes are stored, their ends. */
  isFound(ask: WorldRequest, i: number): boolean {
    return this.#unit === undefined || this.#unit === "marked-paths" || i === this.#part(ask) - 1;
  }

  /** The content of block i with all that precedes it. */
  contentOf(ask: WorldRequest, i: number): string {
    return prefixOf(ask, this.blockEnd(ask, i));
  }

  /** What a request with this many generated tokens must find among the stored prefixes. */
  expected(ask: WorldRequest, generated: number, stored: ReadonlySet<string>): Expected {
    const known = ask.prompt.length + generated;
    // A partial block is known for its prompt only: it may hold the beginning of anyone's answer.
    const isPartial = this.#partialBlocks && ask.prompt.length % this.blockTokens > 0;
    const withAnswer = this.rules["cache-generated"] === "true" && !isPartial;
    const all = Math.max(this.promptBlocks(ask), withAnswer ? Math.floor(known / this.blockTokens) : 0);
    const blocks = this.#unit === undefined ? all : this.#part(ask);
    let matched = 0;
    if (this.#unit === "prompt" || this.#unit === "marked") {
      if (blocks > 0 && stored.has(this.contentOf(ask, blocks - 1))) matched = blocks;
    } else {
      while (matched < blocks && stored.has(this.contentOf(ask, matched))) matched++;
    }
    let usable = matched;
    if (this.rules["match-limit"] !== "all") usable = Math.min(usable, Math.floor((known - 1) / this.blockTokens));
    const hitBlocks = Math.max(0, usable - this.rules["drop-blocks"]);
    const hitTokens = hitBlocks === 0 ? 0 : Math.min(known, this.blockEnd(ask, hitBlocks - 1));
    return { matched, hitBlocks, hitTokens, partTokens: this.#partOfBlock(ask, known, hitBlocks, matched, stored) };
  }

  #partOfBlock(
    ask: WorldRequest,
    known: number,
    hitBlocks: number,
    matched: number,
    stored: ReadonlySet<string>,
  ): number {
    const { rules, blockTokens } = this;
    const begin = hitBlocks * blockTokens;
    if (rules.partial === "none" || rules["drop-blocks"] > 0) return 0;
    if (rules["match-limit"] === "block-before-l" && begin + blockTokens >= known) return 0;
    // What it looks for: a block that is stored, or what the prompt has there.
    const end = hitBlocks < matched ? this.blockEnd(ask, hitBlocks) : Math.min(begin + blockTokens, ask.prompt.length);
    const usable = Math.min(end, known - (rules["match-limit"] === "all" ? 0 : 1)) - begin;
    if (hitBlocks < matched) return Math.max(0, usable);
    let most = 0;
    for (const content of stored) {
      const [namespace, tokens] = JSON.parse(content) as [number, number[]];
      if (namespace === ask.namespace && tokens.length > begin && tokens.length <= begin + blockTokens)
        most = Math.max(most, this.#common(tokens, ask.prompt.slice(0, end)) - begin);
    }
    return Math.max(0, Math.min(most, usable));
  }

  /** Tokens that two prefixes share, in whole units of the trace, but for an end that is the same. */
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

/** Hits of every request, one at a time, in a cache that never forgets. */
export function hitsWithoutLimit(
  { unitTokens, asks }: World,
  { blockUnits, index }: { readonly blockUnits: number; readonly index: IndexPlugin },
  rules: Rules,
): { blocks: number[]; tokens: number[] } {
  const model = new NaiveModel(unitTokens * blockUnits, unitTokens, rules, index.unit);
  const stored = new Set<string>();
  const found = asks.map((ask) => {
    const expected = model.expected(ask, 0, stored);
    const blocks = model.storedBlocks(ask);
    for (let i = 0; i < blocks; i++) if (model.isFound(ask, i)) stored.add(model.contentOf(ask, i));
    return expected;
  });
  return {
    blocks: found.map(({ hitBlocks }) => hitBlocks),
    tokens: found.map(({ hitTokens, partTokens }) => hitTokens + partTokens),
  };
}
