import { BlockState } from "../../core/cache/pool.ts";
import { Sequence } from "../../core/cache/request.ts";
import { answerAfter, known } from "../caches/asked.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { lmdeployTrie } from "../caches/tries.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, isRecord, name, oneOf, shown, tokens, Unsupported } from "../values.ts";

/** LMDeploy's PyTorch engine: a trie of blocks, of which it holds one reference itself, and each sequence another. */
export const blockTrieFamily: Family = {
  name: "block-trie",
  configKeys: ["block_size", "num_blocks"],
  ops: {
    add: { inputs: ["req", "tokens"], expects: {} },
    match: { inputs: ["req"], expects: { hit_tokens: "plain" } },
    alloc: { inputs: ["req"], expects: { new_block_count: "plain" } },
    publish: { inputs: ["req"], expects: {} },
    append: { inputs: ["req", "tokens"], expects: {} },
    free: { inputs: ["req"], expects: {} },
    evict: { inputs: ["n"], expects: { evicted_count: "plain" } },
    state: {
      inputs: [],
      expects: {
        cursor: "plain",
        leaves: "plain",
        num_free: "plain",
        req_ref_counts: "plain",
        same_first_block: "plain",
      },
    },
  },
  start: ({ block_size, num_blocks }, ops) => {
    const parts = lmdeployTrie(integer(block_size, "block_size", 1), integer(num_blocks, "num_blocks", 1));
    return new Trie(new DrivenCache(parts), ops);
  },
};

class Trie implements Instance {
  readonly #driven: DrivenCache;
  readonly #ops: readonly Operation[];
  readonly #sequences = new Map<string, { sequence: Sequence; holds: boolean }>();
  #done = 0;

  constructor(driven: DrivenCache, ops: readonly Operation[]) {
    this.#driven = driven;
    this.#ops = ops;
  }

  run(op: string, inputs: Fields): Found {
    const found = this.#run(op, inputs);
    this.#done++;
    return found;
  }

  #run(op: string, inputs: Fields): Found {
    if (op === "state") return this.#state();
    if (op === "evict") return { evicted_count: this.#driven.evict(integer(inputs["n"], "n")).flat().length };
    const id = name(inputs["req"], "req");
    if (op === "add") {
      if (this.#sequences.get(id)?.holds) throw new Unsupported(`req ${shown(id)} has blocks already`);
      const answer = answerAfter(this.#ops, this.#done, "req", id, ["add"]);
      const sequence = this.#driven.arrive({ prompt: tokens(inputs["tokens"]), answer });
      this.#sequences.set(id, { sequence, holds: false });
      return {};
    }
    const asked = known(this.#sequences, id, "req");
    const { sequence } = asked;
    switch (op) {
      case "match": {
        if (!asked.holds) this.#driven.cache.admit(sequence, 0, this.#driven.now);
        asked.holds = true;
        return { hit_tokens: sequence.cachedTokens };
      }
      case "alloc": {
        const before = sequence.blockCount;
        if (!this.#allocate(sequence, asked.holds)) return { new_block_count: null };
        asked.holds = true;
        return { new_block_count: sequence.blockCount - before };
      }
      case "publish":
        if (!asked.holds) throw new Unsupported(`req ${shown(id)} has no blocks`);
        this.#driven.compute(sequence, Math.min(sequence.knownTokens, sequence.blockCount * this.#driven.blockTokens));
        return {};
      case "append":
        sequence.generatedTokens += tokens(inputs["tokens"]).length;
        return {};
      default:
        if (asked.holds) this.#driven.finish(sequence);
        // It may come back, with all its tokens.
        asked.sequence = new Sequence(sequence.request);
        asked.sequence.generatedTokens = sequence.generatedTokens;
        asked.holds = false;
        return {};
    }
  }

  /** Blocks for all its tokens. Who has not asked the trie takes nothing from it. */
  #allocate(sequence: Sequence, holds: boolean): boolean {
    const { cache } = this.#driven;
    if (holds) return cache.extend(sequence, sequence.knownTokens, this.#driven.now);
    sequence.maxHitBlocks = 0;
    return cache.admit(sequence, sequence.knownTokens, this.#driven.now);
  }

  #state(): Found {
    const { index, pool } = this.#driven.cache;
    const isStored = (block: number) => {
      const state = pool.stateOf(block);
      return state === BlockState.published || state === BlockState.idle;
    };
    const blocks = (id: string) => this.#driven.blocksOf(known(this.#sequences, id, "req").sequence);
    // Of the trie itself and of all sequences.
    const references = (block: number) => pool.refCountOf(block) + (isStored(block) ? 1 : 0);
    return {
      leaves: [...index.blocks()].filter((block) => index.isLeaf!(block)).length,
      num_free: this.#driven.cache.freeBlocks,
      req_ref_counts: (expected: unknown) => byRequest(expected, (id) => blocks(id).map(references)),
      cursor: (expected: unknown) =>
        byRequest(expected, (id) => {
          const { sequence } = known(this.#sequences, id, "req");
          return sequence.blocks.published * this.#driven.blockTokens;
        }),
      same_first_block: (expected: unknown) => this.#sameFirst(expected, blocks),
    };
  }

  /** Requests that are to begin with one and the same block; or whether all that have blocks do. */
  #sameFirst(expected: unknown, blocks: (id: string) => number[]): unknown {
    const holders = [...this.#sequences.entries()].filter(([, { sequence }]) => sequence.blockCount > 0);
    const isOne = (ids: readonly string[]) => new Set(ids.map((id) => blocks(id)[0])).size === 1;
    if (!Array.isArray(expected)) {
      oneOf(expected, "same_first_block", [true, false]);
      return isOne(holders.map(([id]) => id));
    }
    const ids = expected.map((id) => name(id, "a request of same_first_block"));
    const isPair = ids.length > 1 && ids.every((id) => blocks(id).length > 0);
    return isPair && isOne(ids) ? expected : "other blocks";
  }
}

/** What is found of each request that the case names. */
function byRequest(expected: unknown, find: (id: string) => unknown): unknown {
  if (!isRecord(expected)) throw new Unsupported(`${shown(expected)} is expected of requests`);
  return Object.fromEntries(Object.keys(expected).map((id) => [id, find(id)]));
}
