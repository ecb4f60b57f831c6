import { prefixPoolPreset } from "../../policies/presets/prefix-pool.ts";
import { lookUp } from "../caches/case-inputs.ts";
import { DrivenCache, likePreset } from "../caches/driven-cache.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, list, tokens, Unsupported } from "../values.ts";

/** vLLM's PrefixPool (PR 1669): marked prefixes, which requests after the batch that computes them can use. */
export const explicitPrefixPool: Family = {
  name: "explicit-prefix-pool",
  configKeys: ["block_size"],
  ops: {
    add: {
      inputs: ["tokens"],
      expects: { allocated: "plain", computed: "plain", length: "plain", prefix: "plain" },
    },
    run_batch: { inputs: ["requests"], expects: { reused: "plain" } },
  },
  start: (config, ops) => new Prefixes(integer(config["block_size"], "block_size", 1), ops),
};

class Prefixes implements Instance {
  readonly #driven: DrivenCache;
  /** By content id of the prefix's end. */
  readonly #nameOf = new Map<number, string>();
  readonly #prefixes = new Map<string, readonly number[]>();

  constructor(blockTokens: number, ops: readonly Operation[]) {
    const blocks = blocksFor(ops, blockTokens);
    this.#driven = new DrivenCache(likePreset(prefixPoolPreset, { blockTokens, blocks }));
  }

  run(op: string, inputs: Fields): Found {
    return op === "add" ? this.#add(tokens(inputs["tokens"])) : this.#runBatch(list(inputs["requests"], "requests"));
  }

  /** Registers a prefix: nothing is allocated before a request uses it. */
  #add(given: readonly number[]): Found {
    const { blockTokens, cache } = this.#driven;
    const sequence = this.#driven.arrive({ prompt: given, markedTokens: given.length });
    const { request } = sequence;
    const blocks = cache.index.stores!(request);
    if (blocks === 0) return { prefix: null, length: 0, allocated: false, computed: false };
    const end = request.keyAt(blocks - 1);
    const label = this.#nameOf.get(end) ?? `p${this.#nameOf.size}`;
    this.#nameOf.set(end, label);
    this.#prefixes.set(label, given.slice(0, blocks * blockTokens));
    const isCached = cache.lookup.match(sequence) === blocks;
    return { prefix: label, length: blocks * blockTokens, allocated: isCached, computed: isCached };
  }

  /** All requests run in one step; each prompt is its prefix and one distinct token. */
  #runBatch(requests: readonly unknown[]): Found {
    const { cache } = this.#driven;
    const batch = requests.map((label, i) => {
      const prefix = lookUp(this.#prefixes, label, "a prefix");
      const prompt = [...prefix, 2 ** 31 + i];
      const sequence = this.#driven.arrive({ prompt, markedTokens: prefix.length });
      if (!cache.admit(sequence, prompt.length, this.#driven.now)) throw new Unsupported("the cache is too small");
      this.#driven.schedule(sequence, prompt.length);
      return { sequence, isReused: sequence.cachedTokens === prefix.length };
    });
    for (const { sequence } of batch) this.#driven.computed(sequence);
    for (const { sequence } of batch) this.#driven.finish(sequence);
    return { reused: batch.map(({ isReused }) => isReused) };
  }
}

/** Number of blocks for all prefixes and for the largest batch. */
function blocksFor(ops: readonly Operation[], blockTokens: number): number {
  const added = ops.filter(({ name }) => name === "add").map(({ inputs }) => tokens(inputs["tokens"]).length);
  const max = (counts: readonly number[], minimum: number) => counts.reduce((a, b) => Math.max(a, b), minimum);
  const longest = Math.ceil((max(added, 0) + 1) / blockTokens);
  const batches = ops.map(({ inputs: { requests } }) => (Array.isArray(requests) ? requests.length : 0));
  return Math.ceil(added.reduce((a, b) => a + b, 0) / blockTokens) + added.length + longest * max(batches, 1);
}
