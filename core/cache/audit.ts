import { assert } from "../errors.ts";
import type { KvCache } from "./kv-cache.ts";
import { BlockState, blockStateNames } from "./pool.ts";
import type { Sequence } from "./request.ts";

/**
 * Checks every invariant of a cache in full: O(blocks). `holders` are all sequences that reference blocks, without the
 * pinned ones.
 *
 * 1. free + private + idle + published = all blocks; a reference count is the number of block tables with the block.
 *    A shared block has the same place in each of them.
 * 2. An idle or free block is in no table; a block in the index is published or idle.
 */
export function audit(cache: KvCache, holders: Iterable<Sequence>): void {
  const { pool, index } = cache;
  const total = pool.blockCount;
  const holderCount = new Uint32Array(total);
  const placeOf = new Int32Array(total);
  for (const { blocks, request } of [...holders, ...cache.pins]) {
    const own = new Set<number>();
    for (let i = 0; i < blocks.end; i++) {
      const block = blocks.blocks[i];
      if (block < 0) continue;
      assert(!own.has(block), () => `request ${request.id} holds block ${block} twice`);
      own.add(block);
      const elsewhere = holderCount[block] > 0 && placeOf[block] !== i;
      assert(
        !elsewhere,
        () => `block ${block} is block ${i} of request ${request.id} and ${placeOf[block]} of another`,
      );
      placeOf[block] = i;
      holderCount[block]++;
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
    const holding = holderCount[block];
    assert(
      pool.refCountOf(block) === holding,
      () => `block ${block} (${name}): count ${pool.refCountOf(block)}, ${holding} holders`,
    );
    const unheld = state === BlockState.free || state === BlockState.idle;
    assert((holding === 0) === unheld, () => `block ${block} is ${name} and has ${holding} holders`);
    const cached = state === BlockState.published || state === BlockState.idle;
    assert(
      cached === (stored[block] === 1),
      () => `block ${block} is ${name}; stored by the index: ${stored[block] === 1}`,
    );
    if (!cached) continue;
    const entry = index.entryOf(block);
    const mayGo = index.isEvictable(entry);
    assert(!mayGo || holding === 0, () => `entry ${entry} may go while block ${block} has ${holding} holders`);
    if (mayGo) evictable++;
  }
  const free = count[BlockState.free];
  assert(free === cache.freeBlocks, () => `${free} blocks are free, the allocator has ${cache.freeBlocks}`);
  let listed = 0;
  for (const block of cache.freeList()) {
    listed++;
    assert(
      pool.stateOf(block) === BlockState.free,
      () => `block ${block} is ${blockStateNames[pool.stateOf(block)]}, and free`,
    );
  }
  assert(listed === free, () => `${free} blocks are free, the allocator lists ${listed}`);
  const idle = count[BlockState.idle];
  assert(index.evictableBlocks <= idle, () => `${index.evictableBlocks} blocks evictable, only ${idle} idle`);
  assert(evictable === 0 || index.evictableBlocks > 0, "entries may go, but no block would become free");
  assert(
    free + count[BlockState.reserved] + count[BlockState.computing] + idle + count[BlockState.published] === total,
    () => `${count.join(" + ")} blocks by state, of ${total}`,
  );
}
