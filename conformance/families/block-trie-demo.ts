import type { Sequence } from "../../core/cache/request.ts";
import type { BlockId } from "../../core/plugins/index.ts";
import type { BlockNames } from "../block-names.ts";
import { lookUp } from "../caches/case-inputs.ts";
import { type DemoStep, demoSteps } from "../caches/demo-steps.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { demoTrie } from "../caches/tries.ts";
import type { Family, Found } from "../family.ts";
import { type Fields, integer, list, name, oneOf, shown, tokens, Unsupported } from "../values.ts";

/** The demo of LMDeploy's issue 1407, unchanged. */
export const blockTrieDemo: Family = {
  name: "block-trie-demo",
  configKeys: ["block_ids", "block_size", "free_list", "full_hit_allowed", "num_blocks"],
  ops: {
    demo_allocate: { inputs: ["req", "tokens"], expects: { blocks: "blocks" } },
    demo_free: { inputs: ["req"], expects: {} },
  },
  start(config) {
    if (config["full_hit_allowed"] !== undefined) oneOf(config["full_hit_allowed"], "full_hit_allowed", [true]);
    const demo = new Demo(config, config["num_blocks"]);
    return {
      run(op, { req, tokens: given }) {
        if (op === "demo_allocate") return { blocks: demo.allocate(name(req, "req"), tokens(given)) };
        demo.free(name(req, "req"));
        return {};
      },
    };
  },
};

/** The intended behaviour in cases in which the demo crashes or is wrong. */
export const blockTrieDemoFixed: Family = {
  name: "block-trie-demo-fixed",
  configKeys: ["block_ids", "block_size", "free_list"],
  ops: {
    scenario: {
      inputs: ["name", "num_blocks", "seed_behaviour", "steps"],
      expects: {
        evicted: "blocks",
        evicted_count: "plain",
        evicted_first: "blocks",
        evicted_second: "blocks",
        free_contains: "plain",
        free_count: "plain",
        ref_of_3_4: "plain",
      },
    },
  },
  start: (config, _, blocks) => ({ run: (__, inputs) => scenario(config, inputs, blocks) }),
};

function scenario(config: Fields, { num_blocks, steps }: Fields, names: BlockNames): Found {
  const demo = new Demo(config, num_blocks);
  const evictions: BlockId[][] = [];
  for (const step of demoSteps(list(steps, "steps"))) demo.run(step, evictions);
  const evicted = evictions.flat();
  // A case may state one eviction as a list of blocks or as its only block.
  const eviction = (i: number) => (expected: unknown) =>
    Array.isArray(expected) ? (evictions[i] ?? null) : evictions[i]?.length === 1 ? evictions[i][0] : null;
  return {
    evicted: (expected: unknown) => (Array.isArray(expected) ? evicted : evicted.length === 1 ? evicted[0] : null),
    evicted_count: evicted.length,
    evicted_first: eviction(0),
    evicted_second: eviction(1),
    free_count: demo.cache.freeBlocks,
    free_contains(expected: unknown) {
      const free = new Set(demo.cache.freeList());
      const ids = Array.isArray(expected) ? expected : [expected];
      const first = firstIdOf(config["block_ids"]);
      const ours = ids.map((id) => names.ours(name(id, "a block")) ?? integer(id, "a block") - first);
      return ours.length > 0 && ours.every((block) => free.has(block)) ? expected : [...free];
    },
    ref_of_3_4: () => demo.refCountOf([3, 4]),
  };
}

class Demo {
  readonly #driven: DrivenCache;
  readonly #requests = new Map<string, { readonly sequence: Sequence; readonly tokens: number[] }>();
  /** By block: its content. */
  readonly #contents = new Map<BlockId, readonly number[]>();

  constructor({ block_size, free_list, block_ids }: Fields, blocks: unknown) {
    if (free_list !== undefined) oneOf(free_list, "free_list", ["fifo"]);
    firstIdOf(block_ids);
    this.#driven = new DrivenCache(demoTrie(integer(block_size, "block_size", 1), integer(blocks, "num_blocks", 1)));
  }

  get cache() {
    return this.#driven.cache;
  }

  run(step: DemoStep, evictions: BlockId[][]): void {
    if (step.do === "evict") evictions.push(this.#driven.evict(step.blocks).flat());
    else if (step.do === "free") this.free(step.req);
    else if (step.do === "allocate") this.allocate(step.req, step.tokens);
    else this.#decode(step.req, step.tokens);
  }

  allocate(req: string, given: readonly number[]): BlockId[] | null {
    if (this.#requests.has(req)) throw new Unsupported(`req ${shown(req)} already has blocks`);
    const sequence = this.#driven.arrive({ prompt: given });
    if (!this.cache.admit(sequence, given.length, this.#driven.now)) return null;
    this.#driven.compute(sequence);
    this.#requests.set(req, { sequence, tokens: [...given] });
    this.#recordContents(req);
    return this.#driven.blocksOf(sequence);
  }

  free(req: string): void {
    const { sequence } = lookUp(this.#requests, req, "req");
    this.#requests.delete(req);
    this.#driven.finish(sequence);
  }

  /** Reference count of the cached block with these tokens; null if there is none. */
  refCountOf(content: readonly number[]): number | null {
    const hasContent = (block: BlockId) => JSON.stringify(this.#contents.get(block)) === JSON.stringify(content);
    const found = [...this.cache.index.blocks()].filter(hasContent);
    return found.length === 1 ? this.cache.pool.refCountOf(found[0]) : null;
  }

  #decode(req: string, given: readonly number[]): void {
    const request = lookUp(this.#requests, req, "req");
    const { sequence } = request;
    sequence.generatedTokens += given.length;
    for (const token of given) request.tokens.push(token);
    if (!this.cache.extend(sequence, sequence.knownTokens, this.#driven.now)) throw new Unsupported("no block is free");
    this.#driven.compute(sequence);
    this.#recordContents(req);
  }

  #recordContents(req: string): void {
    const { sequence, tokens: all } = lookUp(this.#requests, req, "req");
    const size = this.#driven.blockTokens;
    this.#driven.blocksOf(sequence).forEach((block, i) => {
      this.#contents.set(block, all.slice(i * size, (i + 1) * size));
    });
  }
}

/** First id of a range such as "1..5". */
function firstIdOf(ids: unknown): number {
  if (ids === undefined || ids === null) return 1;
  const parts = /^(\d+)\s*\.\.\s*(\d+|n|num_blocks)$/.exec(name(ids, "block_ids"));
  if (parts === null) throw new Unsupported(`block_ids is ${shown(ids)}`);
  return Number(parts[1]);
}
