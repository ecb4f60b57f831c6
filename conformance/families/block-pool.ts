import { reset } from "../../core/cache/operations.ts";
import { blocksOf, type Sequence } from "../../core/cache/request.ts";
import { KvEventReader } from "../../core/log/kv-events.ts";
import type { BlockId } from "../../core/plugins/index.ts";
import { appendedTokens, isOn, lookUp, tokenCount } from "../caches/case-inputs.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { vllmPool } from "../caches/vllm.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, name, tokens, Unsupported } from "../values.ts";

/** vLLM v1 and nano-vllm: lookups, allocation, and the order in which free and cached blocks are reused. */
export const blockPool: Family = {
  name: "block-pool",
  configKeys: [
    "block_size",
    "caching",
    "drop_last_hit_block",
    "events",
    "free_order",
    "last_block_never_looked_up",
    "last_token_never_hit",
    "null_block",
    "num_blocks",
    "preallocate_blocks",
    "publish",
  ],
  ops: {
    lookup: {
      inputs: ["req", "salt", "skip_lookup", "tokens"],
      expects: { hit_blocks: "blocks", hit_tokens: "plain" },
    },
    allocate: {
      inputs: ["num_new_tokens", "req"],
      expects: { new_block_count: "plain", new_blocks: "blocks", refused: "plain" },
    },
    append: { inputs: ["req", "tokens"], expects: {} },
    set_computed: { inputs: ["n", "req"], expects: {} },
    free: { inputs: ["req"], expects: {} },
    reset: { inputs: [], expects: { ok: "plain" } },
    events: { inputs: [], expects: { cleared: "plain", removed: "plain", stored: "plain" } },
    state: {
      inputs: [],
      expects: {
        distinct_hashes: "plain",
        free_order: "blocks",
        hashed: "block-set",
        num_free: "plain",
        ref_counts: "block-keys",
      },
    },
  },
  start: (config, ops) => new Pool(config, ops),
};

interface PoolRequest {
  readonly sequence: Sequence;
  readonly hits: number;
  runs: boolean;
}

class Pool implements Instance {
  readonly #config: Fields;
  readonly #ops: readonly Operation[];
  readonly #driven: DrivenCache;
  readonly #preallocated: number;
  readonly #events: KvEventReader | undefined;
  readonly #requests = new Map<string, PoolRequest>();
  /** Operations so far. */
  #done = 0;

  constructor(config: Fields, ops: readonly Operation[]) {
    this.#config = config;
    this.#ops = ops;
    this.#driven = new DrivenCache(vllmPool(config));
    const { preallocate_blocks: preallocated, events } = config;
    this.#preallocated = preallocated === undefined ? 0 : tokenCount(preallocated, "preallocate_blocks");
    const hasEvents = isOn(events, "events", true);
    this.#events = hasEvents ? new KvEventReader(this.#driven.log) : undefined;
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
      case "lookup":
        return this.#lookup(inputs);
      case "allocate":
        return this.#allocate(
          lookUp(this.#requests, inputs["req"], "req"),
          tokenCount(inputs["num_new_tokens"], "num_new_tokens"),
        );
      case "append":
        lookUp(this.#requests, inputs["req"], "req").sequence.generatedTokens += tokens(inputs["tokens"]).length;
        return {};
      case "set_computed":
        this.#setComputed(lookUp(this.#requests, inputs["req"], "req"), integer(inputs["n"], "n"));
        return {};
      case "free":
        this.#free(name(inputs["req"], "req"));
        return {};
      case "reset":
        return { ok: reset(this.#cache, this.#driven.now) };
      case "events":
        return this.#eventCounts();
      default:
        return this.#state();
    }
  }

  #lookup({ req, salt, skip_lookup: skips, tokens: prompt }: Fields): Found {
    const id = name(req, "req");
    const output = appendedTokens(this.#ops, this.#done, "req", id, ["lookup"]);
    const sequence = this.#driven.arrive({ prompt: tokens(prompt), output, namespace: salt });
    if (isOn(skips, "skip_lookup")) sequence.maxHitBlocks = 0;
    const { hitBlocks: hits, hitTokens } = this.#cache.lookup.planAdmission(sequence, 0);
    // A running request repeats its lookup only.
    if (!this.#requests.get(id)?.runs) this.#requests.set(id, { sequence, hits, runs: false });
    return { hit_blocks: [...sequence.table.subarray(0, hits)], hit_tokens: hitTokens };
  }

  #allocate(request: PoolRequest, newTokens: number): Found {
    const { sequence, hits } = request;
    const size = this.#driven.blockTokens;
    const cached = request.runs ? sequence.computedTokens : hits * size;
    const total = cached + newTokens;
    const before = request.runs ? sequence.blockCount : hits;
    if (request.runs ? !this.#grow(sequence, total) : !this.#admit(request, total))
      return { refused: true, new_blocks: null, new_block_count: null };
    if (sequence.blockCount > before) this.#preallocate(sequence);
    const blocks = this.#driven.blocksOf(sequence).slice(before);
    this.#driven.schedule(sequence, Math.min(total, sequence.knownTokens));
    return { refused: false, new_blocks: blocks, new_block_count: blocks.length };
  }

  /**
   * Admits a request with the hits of its lookup, and allocates blocks for tokens that are not known yet. False, without any
   * change, if there are too few blocks.
   */
  #admit(request: PoolRequest, total: number): boolean {
    const { sequence, hits } = request;
    sequence.maxHitBlocks = hits + this.#cache.rules["drop-blocks"];
    const admission = this.#cache.lookup.planAdmission(sequence, total - hits * this.#driven.blockTokens);
    if (admission.hitBlocks !== hits) throw new Unsupported("blocks of a lookup were evicted before the allocation");
    const { neededBlocks, idleBlocks, tableEnd, hitTokens } = admission;
    const beyond = Math.max(0, blocksOf(total, this.#driven.blockTokens) - tableEnd);
    if (neededBlocks + beyond > this.#cache.availableBlocks - idleBlocks) return false;
    if (!this.#cache.admit(sequence, total - hitTokens, this.#driven.now)) return false;
    request.runs = true;
    return this.#grow(sequence, total);
  }

  #grow(sequence: Sequence, total: number): boolean {
    return this.#cache.extend(sequence, total, this.#driven.now);
  }

  #preallocate(sequence: Sequence): void {
    const more = Math.min(this.#preallocated, this.#cache.availableBlocks);
    if (more > 0) this.#grow(sequence, (sequence.blockCount + more) * this.#driven.blockTokens);
  }

  #setComputed({ sequence, runs }: PoolRequest, computed: number): void {
    const slots = sequence.blockCount * this.#driven.blockTokens;
    const maxComputed = Math.min(slots, sequence.knownTokens);
    if (!runs || computed < sequence.computedTokens || computed > maxComputed)
      throw new Unsupported(
        `n is ${computed} where ${sequence.computedTokens} to ${maxComputed} tokens can be computed`,
      );
    this.#driven.compute(sequence, computed);
  }

  #free(id: string): void {
    const request = lookUp(this.#requests, id, "req");
    if (request.runs) this.#driven.finish(request.sequence);
    this.#requests.delete(id);
  }

  #eventCounts(): Found {
    let [stored, removed, cleared] = [0, 0, 0];
    for (const event of this.#events?.take() ?? []) {
      if (event.type === "stored") stored += event.contents.length;
      else if (event.type === "removed") removed += event.contents.length;
      else cleared++;
    }
    return { stored: asExpected(stored), removed: asExpected(removed), cleared: asExpected(cleared) };
  }

  #state(): Found {
    const { index, pool, entries } = this.#cache;
    const stored = [...index.blocks()];
    const refCounts = Array.from({ length: pool.blockCount }, (_, block) => [block, pool.refCountOf(block)]);
    return {
      num_free: this.#cache.availableBlocks,
      hashed: stored,
      distinct_hashes: new Set(stored.map((block) => entries.columns.key[block])).size,
      ref_counts: Object.fromEntries(refCounts),
      free_order: () => this.#freeOrder(),
    };
  }

  /**
   * The order in which blocks would be allocated: repeats the operations on another pool, then allocates all blocks one by
   * one.
   */
  #freeOrder(): BlockId[] {
    const other = new Pool(this.#config, this.#ops);
    for (const { name: op, inputs } of this.#ops.slice(0, this.#done - 1)) other.run(op, inputs);
    const order: BlockId[] = [];
    while (other.#cache.availableBlocks > 0) {
      const sequence = other.#driven.arrive({ prompt: [] });
      if (!other.#grow(sequence, 1)) break;
      order.push(sequence.table[0]);
    }
    return order;
  }
}

/** A number; an expected boolean is compared with whether it is above 0. */
const asExpected = (count: number) => (expected: unknown) => (typeof expected === "boolean" ? count > 0 : count);
