import type { Sequence } from "../../core/cache/request.ts";
import type { BlockId } from "../../core/plugins/index.ts";
import { appendedTokens, lookUp } from "../caches/case-inputs.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { vllmV0Cache } from "../caches/vllm.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, name, number, shown, tokens, Unsupported } from "../values.ts";

/** vLLM v0: chains of blocks found by hash, shared as soon as they are allocated, and reused once they are computed. */
export const hashAllocatorV0: Family = {
  name: "hash-allocator-v0",
  configKeys: ["block_size", "num_blocks"],
  ops: {
    chain: {
      inputs: ["id", "tokens"],
      expects: { first_block_equals: "plain", refused: "plain", same_blocks_as: "plain" },
    },
    mutable: { inputs: ["id"], expects: {} },
    append: { inputs: ["id", "tokens"], expects: { ref_count: "plain", same_blocks_as: "plain" } },
    mark_accessed: { inputs: ["id", "time"], expects: {} },
    mark_computed: { inputs: [], expects: {} },
    computed_prefix: { inputs: ["tokens"], expects: { blocks: "blocks" } },
    free_chain: { inputs: ["id"], expects: {} },
    state: { inputs: [], expects: { num_free: "plain" } },
  },
  start: (config, ops) => new Allocator(config, ops),
};

interface Chain {
  readonly sequence: Sequence;
  readonly prompt: readonly number[];
  /** Its blocks, also after it was freed. */
  blocks: readonly BlockId[];
  freed: boolean;
}

const begins = ["chain", "mutable"];
/** Tick of blocks that were never marked as accessed: less than that of any marked block. */
const neverMarked = 1;

class Allocator implements Instance {
  readonly #driven: DrivenCache;
  readonly #ops: readonly Operation[];
  readonly #chains = new Map<string, Chain>();
  /** Blocks that were allocated and are not computed yet. */
  readonly #uncomputed = new Set<BlockId>();
  /** Tick at which a block was last marked. */
  readonly #markedAt = new Map<BlockId, number>();
  readonly #times: readonly number[];
  #done = 0;

  constructor({ block_size, num_blocks }: Fields, ops: readonly Operation[]) {
    this.#ops = ops;
    this.#driven = new DrivenCache(
      vllmV0Cache(integer(block_size, "block_size", 1), integer(num_blocks, "num_blocks", 1)),
    );
    this.#driven.cache.lookup.isBeingComputed = (block) => this.#uncomputed.has(block);
    const marks = ops.filter((op) => op.name === "mark_accessed").map(({ inputs }) => number(inputs["time"], "time"));
    this.#times = [...new Set(marks)].sort((a, b) => a - b);
  }

  get #cache() {
    return this.#driven.cache;
  }

  run(op: string, inputs: Fields): Found {
    const found = this.#run(op, inputs);
    this.#done++;
    return found;
  }

  #run(op: string, inputs: Fields): Found {
    switch (op) {
      case "chain":
      case "mutable":
        return this.#begin(name(inputs["id"], "id"), op === "mutable" ? [] : tokens(inputs["tokens"]));
      case "append":
        return this.#append(lookUp(this.#chains, inputs["id"], "id"), tokens(inputs["tokens"]).length);
      case "mark_accessed":
        this.#mark(lookUp(this.#chains, inputs["id"], "id"), number(inputs["time"], "time"));
        return {};
      case "mark_computed":
        this.#uncomputed.clear();
        return {};
      case "computed_prefix": {
        const sequence = this.#driven.arrive({ prompt: tokens(inputs["tokens"]) });
        const { hitBlocks } = this.#cache.lookup.planAdmission(sequence, 0);
        return { blocks: [...sequence.table.subarray(0, hitBlocks)] };
      }
      case "free_chain":
        this.#free(lookUp(this.#chains, inputs["id"], "id"));
        return {};
      default:
        return { num_free: this.#cache.availableBlocks };
    }
  }

  /** Begins a chain; without tokens it is one block, to which tokens are appended. */
  #begin(id: string, prompt: readonly number[]): Found {
    if (this.#chains.get(id)?.freed === false) throw new Unsupported(`id ${shown(id)} already exists`);
    const output = appendedTokens(this.#ops, this.#done, "id", id, begins);
    const sequence = this.#driven.arrive({ prompt, output });
    if (!this.#cache.admit(sequence, prompt.length, this.#driven.now)) return { refused: true };
    if (prompt.length === 0 && !this.#cache.extend(sequence, 1, this.#driven.now)) return { refused: true };
    const chain: Chain = { sequence, prompt, blocks: [], freed: false };
    this.#allocated(chain);
    this.#chains.set(id, chain);
    return { refused: false, ...this.#relations(chain) };
  }

  #append(chain: Chain, count: number): Found {
    const { sequence } = chain;
    if (chain.freed) throw new Unsupported("tokens are appended to a freed chain");
    sequence.generatedTokens += count;
    if (!this.#cache.extend(sequence, sequence.knownTokens, this.#driven.now))
      throw new Unsupported("no block is free");
    this.#allocated(chain);
    const last = chain.blocks[Math.max(0, sequence.blocksUpTo(sequence.knownTokens) - 1)];
    return { ref_count: this.#cache.pool.refCountOf(last), ...this.#relations(chain) };
  }

  /** Publishes the blocks of a chain; those that were not in the index before are not computed yet. */
  #allocated(chain: Chain): void {
    const { sequence } = chain;
    const { index } = this.#cache;
    const before = new Set(index.blocks());
    this.#driven.compute(sequence);
    chain.blocks = this.#driven.blocksOf(sequence);
    for (const block of index.blocks()) {
      if (before.has(block)) continue;
      this.#uncomputed.add(block);
      this.#markedAt.delete(block);
    }
  }

  #relations(chain: Chain): Found {
    return {
      same_blocks_as: (expected: unknown) => {
        const { blocks } = lookUp(this.#chains, expected, "same_blocks_as");
        const same = blocks.length === chain.blocks.length && blocks.every((block, i) => block === chain.blocks[i]);
        return same ? expected : "other blocks";
      },
      first_block_equals: (expected: unknown) =>
        this.#blockNamed(expected) === chain.blocks[0] ? expected : "another",
    };
  }

  /** "A[last]", "A[first]" or "A[2]". */
  #blockNamed(expected: unknown): BlockId {
    const parts = /^(.+)\[(first|last|-?\d+)\]$/.exec(name(expected, "first_block_equals"));
    if (parts === null) throw new Unsupported(`first_block_equals is ${shown(expected)}`);
    const { blocks } = lookUp(this.#chains, parts[1], "first_block_equals");
    const at = parts[2] === "first" ? 0 : parts[2] === "last" ? -1 : Number(parts[2]);
    const found = blocks.at(at);
    if (found === undefined) throw new Unsupported(`first_block_equals is ${shown(expected)}`);
    return found;
  }

  #mark(chain: Chain, time: number): void {
    const tick = neverMarked + 1 + this.#times.indexOf(time);
    const stored = new Set(this.#cache.index.blocks());
    for (const block of chain.blocks) if (stored.has(block)) this.#markedAt.set(block, tick);
    if (chain.freed) this.#renew(chain, chain.blocks.length);
  }

  #free(chain: Chain): void {
    if (chain.freed) throw new Unsupported("a chain is freed twice");
    chain.freed = true;
    const last = chain.blocks.length - 1;
    this.#atTick(this.#tickOf(chain.blocks[last]), () => this.#driven.finish(chain.sequence));
    for (const block of chain.blocks) if (this.#cache.pool.refCountOf(block) === 0) this.#uncomputed.delete(block);
    this.#renew(chain, last);
  }

  /**
   * In kvlab's cache the last use of a block is its release; in vLLM v0 it is the time at which the block was marked as
   * accessed. So for each block whose mark differs from that of the next block, the prefix that ends with it is referenced and
   * released again at the time of its mark.
   */
  #renew(chain: Chain, blocks: number): void {
    for (let end = blocks; end > 0; end--) {
      const tick = this.#tickOf(chain.blocks[end - 1]);
      if (end < chain.blocks.length && tick === this.#tickOf(chain.blocks[end])) continue;
      const content = chain.prompt.slice(0, end * this.#driven.blockTokens);
      const sequence = this.#driven.arrive({ prompt: content });
      this.#atTick(tick, () => {
        this.#cache.admit(sequence, 0, this.#driven.now);
        this.#cache.entries.tick = tick - 1;
        this.#driven.finish(sequence);
      });
    }
  }

  #atTick(tick: number, action: () => void): void {
    const { entries } = this.#cache;
    const { tick: now } = entries;
    entries.tick = tick - 1;
    action();
    entries.tick = now;
  }

  #tickOf(block: BlockId): number {
    return this.#markedAt.get(block) ?? neverMarked;
  }
}
