import { type BlockColumns, BlockKeys } from "../../../core/trace/content.ts";
import type { Trace } from "../../../core/trace/trace.ts";

/** A block of a prompt. */
export interface Block {
  /** Content id. */
  readonly key: number;
  /** Index in its prompt. */
  readonly place: number;
  readonly tokens: number;
  /** End of the block in the prompt, in tokens. */
  readonly depth: number;
}

/** A policy over plain arrays, written from the description of the algorithm, for a cache of blocks and one request at a time. */
export interface NaivePolicy {
  /** The request matches the block. */
  hit?(key: number, isFree: IsFree): void;
  /** Removes the victim from the policy's arrays and returns it. */
  evict(isFree: IsFree): number;
  /** The blocks are cached, in the order of the prompt. */
  insert(blocks: readonly Block[], isFree: IsFree): void;
  /** The request ends; its blocks in the order of their release, the deepest first. */
  release?(keys: readonly number[]): void;
  /** The request with this number begins; it may be refused. */
  begin?(request: number, view: NaiveRequest): void;
}

export interface NaiveRequest {
  readonly prompt: readonly Block[];
  readonly inputTokens: number;
  readonly arrivalNs: number;
  /** 0 = none, as for session and category. */
  readonly namespace: number;
  readonly session: number;
  readonly category: number;
}

/** Whether a cached block is not used by the request. */
export type IsFree = (key: number) => boolean;

/** Decisions of a cache with one request at a time. */
export interface Decisions {
  /** By request: blocks of the longest cached prefix. */
  readonly hits: number[];
  /** Content ids of all victims, in order. */
  readonly victims: number[];
  /** Content ids of the cached blocks at the end, in ascending order. */
  readonly cached: number[];
}

/**
 * Serves the trace with a set of cached blocks. A prompt that is longer than the cache is refused. A partial block without a content
 * id is private: it occupies a block while the request is served.
 */
export function naiveDecisions(trace: Trace, blockTokens: number, capacity: number, policy: NaivePolicy): Decisions {
  const columns = new BlockKeys({ unitTokens: trace.unitTokens, blockTokens }).of(trace);
  const cache = new Set<number>();
  const hits: number[] = [];
  const victims: number[] = [];
  for (let request = 0; request < trace.requestCount; request++) {
    const prompt = blocksOf(columns, trace.inputTokens[request], request, blockTokens);
    const needed = Math.ceil(trace.inputTokens[request] / blockTokens);
    policy.begin?.(request, {
      prompt,
      inputTokens: trace.inputTokens[request],
      arrivalNs: trace.arrivalNs[request],
      namespace: trace.optional.namespace?.[request] ?? 0,
      session: trace.optional.session?.[request] ?? 0,
      category: trace.optional.category?.[request] ?? 0,
    });
    if (needed > capacity) {
      hits.push(0);
      continue;
    }
    const firstMiss = prompt.findIndex(({ key }) => !cache.has(key));
    const matched = firstMiss < 0 ? prompt : prompt.slice(0, firstMiss);
    hits.push(matched.length);
    const used = new Set(prompt.map(({ key }) => key));
    const isFree = (key: number) => cache.has(key) && !used.has(key);
    for (const { key } of matched) policy.hit?.(key, isFree);
    const missing = prompt.filter(({ key }) => !cache.has(key));
    while (cache.size + missing.length + needed - prompt.length > capacity) {
      const victim = policy.evict(isFree);
      if (!isFree(victim)) throw new Error(`the naive policy evicts ${victim}, which is not cached or is in use`);
      cache.delete(victim);
      victims.push(victim);
    }
    policy.insert(missing, isFree);
    for (const { key } of missing) cache.add(key);
    policy.release?.(prompt.map(({ key }) => key).reverse());
  }
  return { hits, victims, cached: [...cache].sort((a, b) => a - b) };
}

function blocksOf({ keys, start }: BlockColumns, inputTokens: number, request: number, blockTokens: number): Block[] {
  return [...keys.subarray(start[request], start[request + 1])].map((key, place) => {
    const depth = Math.min((place + 1) * blockTokens, inputTokens);
    return { key, place, depth, tokens: depth - place * blockTokens };
  });
}
