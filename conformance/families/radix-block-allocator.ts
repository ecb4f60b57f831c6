import type { Sequence } from "../../core/cache/request.ts";
import type { BlockNames } from "../block-names.ts";
import { lookUp, tokenCount } from "../caches/case-inputs.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { tgiCache } from "../caches/tgi.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, list, name, oneOf, shown, tokens, Unsupported } from "../values.ts";

/** TGI v3: allocation of all blocks that a request may need, less the hits of its prompt in a radix trie. */
export const radixBlockAllocator: Family = {
  name: "radix-block-allocator",
  configKeys: ["block_size", "free_list", "num_blocks", "reserved_blocks"],
  ops: {
    allocate: {
      inputs: ["prompt", "req", "total_tokens"],
      expects: { blocks: "blocks", prefix_len: "plain", slots: "plain" },
    },
    free: { inputs: ["req"], expects: {} },
    state: { inputs: [], expects: { free_count: "plain" } },
  },
  start: (config, _, blocks) => new RadixAllocator(config, blocks),
};

class RadixAllocator implements Instance {
  readonly #driven: DrivenCache;
  readonly #names: BlockNames;
  readonly #requests = new Map<string, Sequence>();

  constructor({ block_size, num_blocks, reserved_blocks, free_list }: Fields, names: BlockNames) {
    if (free_list !== undefined) oneOf(free_list, "free_list", ["stack"]);
    const reserved = reservedOf(reserved_blocks);
    const blocks = integer(num_blocks, "num_blocks", 1) - reserved;
    this.#driven = new DrivenCache(tgiCache(integer(block_size ?? 1, "block_size", 1), blocks));
    this.#names = names;
  }

  run(op: string, inputs: Fields): Found {
    if (op === "state") return { free_count: this.#driven.cache.freeBlocks };
    if (op === "allocate") return this.#allocate(inputs);
    const sequence = lookUp(this.#requests, inputs["req"], "req");
    this.#requests.delete(name(inputs["req"], "req"));
    this.#driven.finish(sequence);
    return {};
  }

  #allocate({ req, total_tokens, prompt }: Fields): Found {
    const id = name(req, "req");
    if (this.#requests.has(id)) throw new Unsupported(`req ${shown(req)} already has blocks`);
    const promptIds = prompt === undefined || prompt === null ? [] : tokens(prompt, "prompt");
    const total = tokenCount(total_tokens, "total_tokens");
    if (total < promptIds.length) throw new Unsupported(`total_tokens ${total} of a prompt of ${promptIds.length}`);
    const sequence = this.#driven.arrive({ prompt: promptIds, maxOutputTokens: total - promptIds.length + 1 });
    if (!this.#driven.cache.admit(sequence, promptIds.length, this.#driven.now))
      return { blocks: null, slots: null, prefix_len: null };
    this.#requests.set(id, sequence);
    const blocks = this.#driven.blocksOf(sequence);
    const prefix = sequence.cachedTokens;
    this.#driven.compute(sequence);
    return { blocks, prefix_len: prefix, slots: (expected: unknown) => this.#slots(blocks, total, expected) };
  }

  /** Slots in the case's block numbers; a block without a known number has that of the expected slots. */
  #slots(blocks: readonly number[], total: number, expected: unknown): number[] {
    const size = this.#driven.blockTokens;
    const theirs = Array.isArray(expected) ? expected : [];
    const numberOf = blocks.map((block, i) => {
      const mapped = Number(this.#names.theirs(block));
      const first: unknown = theirs[i * size];
      if (!Number.isNaN(mapped) || typeof first !== "number") return mapped;
      const guess = Math.floor(first / size);
      return this.#names.same(guess, block) ? guess : mapped;
    });
    return Array.from({ length: total }, (_, t) => numberOf[Math.floor(t / size)] * size + (t % size));
  }
}

/** Number of reserved blocks, which are never allocated. */
export function reservedOf(value: unknown): number {
  const reserved = value === undefined || value === null ? [] : list(value, "reserved_blocks");
  for (const block of reserved) integer(block, "a block of reserved_blocks");
  return new Set(reserved).size;
}
