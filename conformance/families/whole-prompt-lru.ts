import type { Sequence } from "../../core/cache/request.ts";
import { EventKind } from "../../core/log/events.ts";
import type { BlockId } from "../../core/plugins/index.ts";
import { roseinfer } from "../../policies/presets/roseinfer.ts";
import { lookUp, tokenCount } from "../caches/case-inputs.ts";
import { DrivenCache, likePreset } from "../caches/driven-cache.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, name, shown, Unsupported } from "../values.ts";

/** roseinfer: a cache of whole prompts with their logits, in LRU order; shared blocks are copied on write. */
export const wholePromptLru: Family = {
  name: "whole-prompt-lru",
  configKeys: ["block_size", "max_entries"],
  ops: {
    request: {
      inputs: ["id", "prompt", "prompt_tokens"],
      expects: { evicted: "plain", hit: "plain", new_blocks_for_prompt: "plain" },
    },
    decode: { inputs: ["id", "tokens"], expects: { copied_block: "plain" } },
  },
  start: (config, ops) => new Prompts(config, ops),
};

class Prompts implements Instance {
  readonly #driven: DrivenCache;
  readonly #tokensOf: ReadonlyMap<string, readonly number[]>;
  readonly #running = new Map<string, Sequence>();
  /** By last block of an entry: the prompt's name in the case. */
  readonly #promptOf = new Map<BlockId, unknown>();

  constructor({ block_size, max_entries }: Fields, ops: readonly Operation[]) {
    const blockTokens = integer(block_size, "block_size", 1);
    this.#tokensOf = promptTokens(ops);
    const isLimited = max_entries !== undefined && max_entries !== null;
    const rules = isLimited ? { "max-entries": integer(max_entries, "max_entries") } : {};
    this.#driven = new DrivenCache(likePreset(roseinfer, { blockTokens, blocks: blocksFor(ops, blockTokens), rules }));
  }

  run(op: string, inputs: Fields): Found {
    return op === "request" ? this.#request(inputs) : this.#decode(inputs);
  }

  /** Runs a request, which never finishes. */
  #request({ id, prompt, prompt_tokens }: Fields): Found {
    const label = name(id, "id");
    if (this.#running.has(label)) throw new Unsupported(`id ${shown(id)} is already running`);
    const key = name(prompt, "prompt");
    const given = this.#tokensOf.get(key)!;
    if (given.length !== prompt_tokens) throw new Unsupported(`prompt ${shown(key)} has two lengths`);
    const sequence = this.#driven.arrive({ prompt: given });
    const { cache, log } = this.#driven;
    const from = log.count;
    if (!cache.admit(sequence, given.length, this.#driven.now)) throw new Unsupported("the cache is too small");
    this.#running.set(label, sequence);
    const hit = sequence.cachedTokens === given.length;
    this.#driven.compute(sequence);
    // The logits determine its first output token.
    sequence.generatedTokens = 1;
    const { kind, block: blocks } = log.columns();
    const evicted = new Set<unknown>();
    let allocated = 0;
    for (let at = from; at < log.count; at++) {
      if (kind[at] === EventKind.allocate) allocated++;
      const ended = this.#promptOf.get(blocks[at]);
      if (ended !== undefined && (kind[at] === EventKind.evict || kind[at] === EventKind.drop)) evicted.add(ended);
    }
    this.#promptOf.set(sequence.table[sequence.request.promptBlocks - 1], prompt);
    return { hit, evicted: [...evicted], new_blocks_for_prompt: allocated };
  }

  #decode({ id, tokens }: Fields): Found {
    const sequence = lookUp(this.#running, id, "id");
    const { cache } = this.#driven;
    const { copiedBlocks } = cache.counters;
    for (let token = 0; token < tokenCount(tokens, "tokens"); token++) {
      if (!cache.extend(sequence, sequence.knownTokens, this.#driven.now))
        throw new Unsupported("the cache is too small");
      this.#driven.compute(sequence);
      sequence.generatedTokens++;
    }
    return { copied_block: cache.counters.copiedBlocks > copiedBlocks };
  }
}

/** Token ids of each prompt. If the text of a prompt is a prefix of another's and it is shorter, its tokens are, too. */
function promptTokens(ops: readonly Operation[]): Map<string, readonly number[]> {
  const found = new Map<string, readonly number[]>();
  const requests = ops.filter((op) => op.name === "request").map(({ inputs }) => inputs);
  let next = 0;
  const prompts = requests.map(({ prompt, prompt_tokens }) => [name(prompt, "prompt"), count(prompt_tokens)] as const);
  for (const [prompt, length] of prompts.toSorted(([a], [b]) => a.length - b.length)) {
    if (found.has(prompt)) continue;
    const begins = [...found].filter(
      ([other, { length: otherLength }]) => prompt.startsWith(other) && otherLength < length,
    );
    const shared = begins.at(-1)?.[1] ?? [];
    const own = Array.from({ length: length - shared.length }, () => next++);
    found.set(prompt, [...shared, ...own]);
  }
  return found;
}

const count = (tokens: unknown) => tokenCount(tokens, "prompt_tokens");

/** Number of blocks for the prompts and outputs of all requests, which never finish, and a copy for each. */
function blocksFor(ops: readonly Operation[], blockTokens: number): number {
  return ops.reduce((blocks, { name: op, inputs }) => {
    const added = op === "request" ? count(inputs["prompt_tokens"]) : tokenCount(inputs["tokens"], "tokens");
    return blocks + Math.ceil(added / blockTokens) + 2;
  }, 1);
}
