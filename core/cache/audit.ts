import { assert } from "../errors.ts";
import type { KvCache } from "./kv-cache.ts";
import { BlockState, blockStateNames } from "./pool.ts";
import type { Sequence } from "./request.ts";

/**
 * Checks every invariant of a cache in full: O(blocks). `sequences` are all sequences that reference blocks; pinned prefixes
 * are added here.
 *
 * 1. free + private + idle + published = all blocks; a reference count is the number of block tables with the block.
 *    A shared block is at the same index in each of them.
 * 2. An idle or free block is in no block table; a block in the index is published or idle.
 */
export function audit(cache: KvCache, sequences: Iterable<Sequence>): void {
  const { pool, index } = cache;
  const total = pool.blockCount;
  const refCount = new Uint32Array(total);
  const indexOf = new Int32Array(total);
  for (const { blocks, request } of [...sequences, ...cache.pins]) {
    const own = new Set<number>();
    for (let i = 0; i < blocks.end; i++) {
      const block = blocks.blocks[i];
      if (block < 0) continue;
      assert(!own.has(block), () => `request ${request.id} references block ${block} twice`);
      own.add(block);
      const elsewhere = refCount[block] > 0 && indexOf[block] !== i;
      assert(
        !elsewhere,
        () => `block ${block} is block ${i} of request ${request.id} and ${indexOf[block]} of another`,
      );
      indexOf[block] = i;
      refCount[block]++;
    }
  }
  const stored = new Uint8Array(total);
  let storedCount = 0;
  for (const block of index.blocks()) {
    assert(stored[block] === 0, () => `the index stores block ${block} twice`);
    stored[block] = 1;
    storedCount++;
  }
  assert(
    storedCount === index.blockCount,
    () => `the index counts ${index.blockCount} blocks and stores ${storedCount}`,
  );
  const count = new Array<number>(blockStateNames.length).fill(0);
  let evictable = 0;
  for (let block = 0; block < total; block++) {
    const state = pool.stateOf(block);
    const name = blockStateNames[state];
    count[state]++;
    const references = refCount[block];
    assert(
      pool.refCountOf(block) === references,
      () => `block ${block} (${name}): reference count ${pool.refCountOf(block)}, ${references} references`,
    );
    const isUnreferenced = state === BlockState.free || state === BlockState.idle;
    assert((references === 0) === isUnreferenced, () => `block ${block} is ${name} and has ${references} references`);
    const cached = state === BlockState.published || state === BlockState.idle;
    assert(
      cached === (stored[block] === 1),
      () => `block ${block} is ${name}; stored by the index: ${stored[block] === 1}`,
    );
    if (!cached) continue;
    const entry = index.entryOf(block);
    const isEvictable = index.isEvictable(entry);
    assert(
      !isEvictable || references === 0,
      () => `entry ${entry} is evictable, block ${block} has ${references} references`,
    );
    if (isEvictable) evictable++;
  }
  const free = count[BlockState.free];
  assert(free === cache.freeBlocks, () => `${free} blocks are free, the allocator has ${cache.freeBlocks}`);
  let listed = 0;
  for (const block of cache.freeList()) {
    listed++;
    assert(
      pool.stateOf(block) === BlockState.free,
      () => `block ${block} is ${blockStateNames[pool.stateOf(block)]}, and in the free list`,
    );
  }
  assert(listed === free, () => `${free} blocks are free, the allocator lists ${listed}`);
  const idle = count[BlockState.idle];
  assert(index.evictableBlocks <= idle, () => `${index.evictableBlocks} blocks evictable, only ${idle} idle`);
  assert(evictable === 0 || index.evictableBlocks > 0, "entries are evictable, but no block would become free");
  assert(
    free + count[BlockState.reserved] + count[BlockState.computing] + idle + count[BlockState.published] === total,
    () => `${count.join(" + ")} blocks by state, of ${total}`,
  );
}
