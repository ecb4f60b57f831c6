import { BlockState } from "../../core/cache/pool.ts";
import { Sequence } from "../../core/cache/request.ts";
import { appendedTokens, lookUp } from "../caches/case-inputs.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { lmdeployTrie } from "../caches/tries.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, isRecord, name, oneOf, shown, tokens, Unsupported } from "../values.ts";

/** LMDeploy's PyTorch engine: a trie of blocks. There, the trie itself counts as one reference of each cached block. */
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
  readonly #sequences = new Map<string, { sequence: Sequence; isAdmitted: boolean }>();
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
      if (this.#sequences.get(id)?.isAdmitted) throw new Unsupported(`req ${shown(id)} already has blocks`);
      const output = appendedTokens(this.#ops, this.#done, "req", id, ["add"]);
      const sequence = this.#driven.arrive({ prompt: tokens(inputs["tokens"]), output });
      this.#sequences.set(id, { sequence, isAdmitted: false });
      return {};
    }
    const request = lookUp(this.#sequences, id, "req");
    const { sequence } = request;
    switch (op) {
      case "match": {
        if (!request.isAdmitted) this.#driven.cache.admit(sequence, 0, this.#driven.now);
        request.isAdmitted = true;
        return { hit_tokens: sequence.cachedTokens };
      }
      case "alloc": {
        const before = sequence.blockCount;
        if (!this.#allocate(sequence, request.isAdmitted)) return { new_block_count: null };
        request.isAdmitted = true;
        return { new_block_count: sequence.blockCount - before };
      }
      case "publish":
        if (!request.isAdmitted) throw new Unsupported(`req ${shown(id)} has no blocks`);
        this.#driven.compute(sequence, Math.min(sequence.knownTokens, sequence.blockCount * this.#driven.blockTokens));
        return {};
      case "append":
        sequence.generatedTokens += tokens(inputs["tokens"]).length;
        return {};
      default:
        if (request.isAdmitted) this.#driven.finish(sequence);
        // It may be admitted again, with all its tokens.
        request.sequence = new Sequence(sequence.request);
        request.sequence.generatedTokens = sequence.generatedTokens;
        request.isAdmitted = false;
        return {};
    }
  }

  /** Allocates blocks for all tokens of a sequence. Without a `match` before, it has no hits. */
  #allocate(sequence: Sequence, isAdmitted: boolean): boolean {
    const { cache } = this.#driven;
    if (isAdmitted) return cache.extend(sequence, sequence.knownTokens, this.#driven.now);
    sequence.maxHitBlocks = 0;
    return cache.admit(sequence, sequence.knownTokens, this.#driven.now);
  }

  #state(): Found {
    const { index, pool } = this.#driven.cache;
    const isStored = (block: number) => {
      const state = pool.stateOf(block);
      return state === BlockState.published || state === BlockState.idle;
    };
    const blocks = (id: string) => this.#driven.blocksOf(lookUp(this.#sequences, id, "req").sequence);
    // The trie's own reference and those of all sequences.
    const references = (block: number) => pool.refCountOf(block) + (isStored(block) ? 1 : 0);
    return {
      leaves: [...index.blocks()].filter((block) => index.isLeaf!(block)).length,
      num_free: this.#driven.cache.freeBlocks,
      req_ref_counts: (expected: unknown) => byRequest(expected, (id) => blocks(id).map(references)),
      cursor: (expected: unknown) =>
        byRequest(expected, (id) => {
          const { sequence } = lookUp(this.#sequences, id, "req");
          return sequence.blocks.published * this.#driven.blockTokens;
        }),
      same_first_block: (expected: unknown) => this.#sameFirst(expected, blocks),
    };
  }

  /** Whether the named requests, or all that have blocks, begin with the same block. */
  #sameFirst(expected: unknown, blocks: (id: string) => number[]): unknown {
    const admitted = [...this.#sequences.entries()].filter(([, { sequence }]) => sequence.blockCount > 0);
    const isOne = (ids: readonly string[]) => new Set(ids.map((id) => blocks(id)[0])).size === 1;
    if (!Array.isArray(expected)) {
      oneOf(expected, "same_first_block", [true, false]);
      return isOne(admitted.map(([id]) => id));
    }
    const ids = expected.map((id) => name(id, "a request of same_first_block"));
    const isPair = ids.length > 1 && ids.every((id) => blocks(id).length > 0);
    return isPair && isOne(ids) ? expected : "other blocks";
  }
}

/** The value of each request that the case names. */
function byRequest(expected: unknown, find: (id: string) => unknown): unknown {
  if (!isRecord(expected))
    throw new Unsupported(`${shown(expected)} is expected, instead of an object with a value per request`);
  return Object.fromEntries(Object.keys(expected).map((id) => [id, find(id)]));
}
