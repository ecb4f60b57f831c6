import type { BlockId } from "../plugins/index.ts";
import type { Nanos } from "../trace/trace.ts";
import type { KvCache } from "./kv-cache.ts";
import { BlockState } from "./pool.ts";
import type { Sequence } from "./request.ts";

/*
 * Operator-initiated operations. A prefix is the prompt of a sequence that was never admitted, in whole blocks (with a partial
 * last one if the index stores it).
 */

/** Evicts until `blocks` more blocks are free, or no entry is evictable; returns the number of freed blocks. */
export function evict(cache: KvCache, blocks: number, now: Nanos): number {
  if (cache.totalBlocks === undefined) return 0;
  cache.begin(undefined, now);
  return cache.entries.evictBlocks(blocks);
}

/**
 * Empties the cache. The order in which blocks will be allocated does not change: free ones first, then those that were
 * cached, in the order of eviction. Returns false, without any change, if a block is referenced or pinned.
 */
export function reset(cache: KvCache, now: Nanos): boolean {
  if (cache.pool.words.some((_, block) => cache.pool.refCountOf(block) > 0)) return false;
  cache.begin(undefined, now);
  cache.log?.clear(now, cache.index.blockCount);
  if (cache.totalBlocks === undefined) dropAll(cache);
  else cache.entries.clear();
  return true;
}

function dropAll(cache: KvCache): void {
  const { index, pool } = cache;
  for (const block of [...index.blocks()]) if (pool.stateOf(block) === BlockState.idle) index.drop(block);
}

export type PinResult = "pinned" | "not cached" | "over budget";

/**
 * Keeps a cached prefix from being evicted until it is unpinned. The whole prefix must be cached, and at most `pin-blocks`
 * distinct blocks may be pinned; otherwise nothing changes. A prefix may be pinned more than once.
 */
export function pin(cache: KvCache, prefix: Sequence, now: Nanos): PinResult {
  if (cache.pins.has(prefix)) return "pinned";
  cache.advanceTo(now);
  const blocks = matchWhole(cache, prefix);
  if (blocks === 0) return "not cached";
  const path = prefix.table.subarray(0, blocks);
  // The step under way may be rolled back.
  if (path.some((block) => cache.lookup.isBeingComputed(block))) return "not cached";
  const { pinned } = cache.entries;
  const added = path.reduce((count, block) => count + (pinned.has(block) ? 0 : 1), 0);
  if (pinned.size + added > cache.rules["pin-blocks"]) return "over budget";
  cache.begin(prefix, now);
  cache.index.cut?.(prefix.table, blocks);
  cache.refs.referenceFound(prefix.table, blocks, blocks, blocks);
  prefix.blocks.admit(blocks, 0);
  cache.pins.add(prefix);
  for (const block of path) pinned.set(block, (pinned.get(block) ?? 0) + 1);
  path.forEach((block, i) => {
    cache.log?.pin(now, prefix.request.id, block, prefix.request.keys[prefix.request.keyStart + i], i);
  });
  return "pinned";
}

/** Unpins the prefix that was pinned with this sequence object; false if it is not pinned. */
export function unpin(cache: KvCache, prefix: Sequence, now: Nanos): boolean {
  if (!cache.pins.delete(prefix)) return false;
  const { pinned } = cache.entries;
  for (const block of prefix.table.subarray(0, prefix.blockCount)) {
    const times = pinned.get(block)! - 1;
    if (times === 0) pinned.delete(block);
    else pinned.set(block, times);
  }
  cache.begin(prefix, now);
  cache.log?.unpin(now, prefix.request.id);
  cache.refs.release(prefix);
  cache.entries.enforceLimits();
  return true;
}

export type DeleteResult = "deleted" | "not cached" | "in use";

/**
 * Deletes a cached prefix: its last block, all blocks that extend it, and the blocks before it that no other block extends.
 * (A hash table does not store which blocks extend a block; there the unreferenced blocks at the prefix's end are deleted.)
 * Refused, without any change, if the last block is referenced.
 */
export function deletePrefix(cache: KvCache, prefix: Sequence, now: Nanos): DeleteResult {
  const { index, pool } = cache;
  cache.advanceTo(now);
  const blocks = matchWhole(cache, prefix);
  if (blocks === 0) return "not cached";
  const areIdle = (equal: readonly BlockId[]) => equal.every((block) => pool.stateOf(block) === BlockState.idle);
  const isTree = index.isLeaf !== undefined;
  // A stored prompt is deleted as a whole; in a tree, blocks that extend an idle block are idle.
  const isWhole = index.stores !== undefined && !isTree;
  const path = Array.from(prefix.table.subarray(0, blocks), (block) => [...(index.duplicatesOf?.(block) ?? [block])]);
  if (!areIdle(isWhole ? path.flat() : path[blocks - 1])) return "in use";
  cache.begin(prefix, now);
  for (let i = blocks - 1; i >= 0 && areIdle(path[i]); i--) {
    if (i < blocks - 1 && isTree && !index.isLeaf!(path[i][0])) break;
    for (const block of path[i]) index.drop(block);
  }
  return "deleted";
}

/** Matches the prefix, into its block table; returns its number of blocks, or 0 if not all of them are cached. */
function matchWhole(cache: KvCache, prefix: Sequence): number {
  const { promptBlocks } = prefix.request;
  cache.expectKeys(prefix.request.blocks.distinct);
  prefix.blocks.reserve(promptBlocks);
  const found = cache.lookup.match(prefix);
  return found === promptBlocks ? found : 0;
}
