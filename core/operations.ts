import { EventKind } from "./events.ts";
import type { KvCache } from "./kv-cache.ts";
import type { BlockId } from "./plugins.ts";
import { BlockState } from "./pool.ts";
import type { Sequence } from "./request.ts";
import type { Nanos } from "./trace.ts";

/*
 * What an operator does to a cache, besides serving. A prefix is given as a sequence that never ran: its prompt, in whole
 * blocks (and a last partial one where the index stores it).
 */

/** Evicts what the policy names until so many blocks are free that were not, or nothing is left; returns how many. */
export function evict(cache: KvCache, blocks: number, now: Nanos): number {
  if (cache.totalBlocks === undefined) return 0;
  cache.begin(undefined, now);
  return cache.entries.evictSome(blocks);
}

/**
 * Forgets all that is cached. Free blocks go out in the order in which they, and after them the victims, would have gone.
 * Refused while a block is in use, or pinned: returns false, and nothing has changed.
 */
export function reset(cache: KvCache, now: Nanos): boolean {
  if (cache.pool.words.some((_, block) => cache.pool.holdersOf(block) > 0)) return false;
  cache.begin(undefined, now);
  cache.log?.add(EventKind.clear, now, -1, -1, cache.index.blockCount, -1);
  if (cache.totalBlocks === undefined) forgetAll(cache);
  else cache.entries.clear();
  return true;
}

function forgetAll(cache: KvCache): void {
  const { index, pool } = cache;
  for (const block of [...index.blocks()]) if (pool.stateOf(block) === BlockState.idle) index.forget(block);
}

export type PinResult = "pinned" | "not cached" | "over budget";

/**
 * Keeps a cached prefix from being evicted until it is unpinned. All of it must be cached, and no more than `pin-blocks`
 * blocks may be pinned at once, each counted once; else nothing changes. A prefix may be pinned more than once.
 */
export function pin(cache: KvCache, prefix: Sequence, now: Nanos): PinResult {
  const blocks = matchWhole(cache, prefix);
  if (blocks === 0) return "not cached";
  const path = prefix.table.subarray(0, blocks);
  const pinned = pinnedBlocks(cache);
  const added = path.reduce((count, block) => count + (pinned.has(block) ? 0 : 1), 0);
  if (pinned.size + added > cache.rules["pin-blocks"]) return "over budget";
  cache.begin(prefix, now);
  cache.index.cut?.(prefix.table, blocks);
  cache.holdings.holdFound(prefix, blocks, blocks, blocks);
  prefix.blockCount = prefix.cachedBlocks = prefix.publishedBlocks = blocks;
  cache.pins.add(prefix);
  path.forEach((block, i) => {
    cache.log?.add(EventKind.pin, now, prefix.request.id, block, prefix.request.keys[prefix.request.keyStart + i], i);
  });
  return "pinned";
}

/** The prefix that was pinned with this very sequence may be evicted again; false if it is not pinned. */
export function unpin(cache: KvCache, prefix: Sequence, now: Nanos): boolean {
  if (!cache.pins.delete(prefix)) return false;
  cache.begin(prefix, now);
  cache.log?.add(EventKind.unpin, now, prefix.request.id, -1, -1, -1);
  cache.holdings.release(prefix);
  return true;
}

/** Blocks that are pinned, each once. */
export function pinnedBlocks(cache: KvCache): Set<BlockId> {
  const blocks = new Set<BlockId>();
  for (const { table, blockCount } of cache.pins) for (const block of table.subarray(0, blockCount)) blocks.add(block);
  return blocks;
}

export type DeleteResult = "deleted" | "not cached" | "in use";

/**
 * Deletes a cached prefix: its end, all that extends it, and of what comes before it what nothing else extends. (A hash
 * table does not know what extends a block; there all of the prefix goes that nobody uses.) Refused while the end is in
 * use, and then nothing has changed.
 */
export function deletePrefix(cache: KvCache, prefix: Sequence, now: Nanos): DeleteResult {
  const { index, pool } = cache;
  const blocks = matchWhole(cache, prefix);
  if (blocks === 0) return "not cached";
  const { table } = prefix;
  const isIdle = (block: BlockId) => pool.stateOf(block) === BlockState.idle;
  // A stored prompt goes as a whole; in a tree, what extends an idle block is idle.
  const parts = index.stores === undefined ? table.subarray(blocks - 1, blocks) : table.subarray(0, blocks);
  if (!parts.every(isIdle)) return "in use";
  cache.begin(prefix, now);
  index.forget(table[blocks - 1]);
  for (let i = blocks - 2; i >= 0 && isIdle(table[i]); i--) {
    if (index.isLeaf?.(table[i]) === false) break;
    index.forget(table[i]);
  }
  return "deleted";
}

/** Finds all blocks of the prefix, into its table; 0 if not all are cached. */
function matchWhole(cache: KvCache, prefix: Sequence): number {
  const { promptBlocks } = prefix.request;
  cache.expectKeys(prefix.request.blocks.distinct);
  prefix.reserve(promptBlocks);
  const found = cache.lookup.match(prefix);
  return found === promptBlocks ? found : 0;
}
