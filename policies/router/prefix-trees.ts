import { grown } from "../../core/grown.ts";

/** No entry. Entries are numbered from 1, so that new arrays are filled with `none`. */
const none = 0;

/**
 * One prefix tree of blocks per replica, in shared arrays: an entry is a pair of replica and block, and the entries of one
 * block are a linked list, found by content id. As content ids are chained, a replica that has a block has all blocks
 * before it, which makes the entries of a replica a tree.
 *
 * A use of a block is also a use of all blocks before it, and these are moved to the newest end after it. So the least
 * recently used entry of a replica is always a leaf, and a plain list per replica gives LRU eviction of leaves:
 *
 *   oldest ─ … ─ deepest block of the last prompt ─ … ─ its first block = newest
 *
 * Memory: 24 bytes per entry and 4 bytes per content id.
 */
export class PrefixTrees {
  /** Most blocks in the tree of a replica. */
  readonly #maxBlocks: number;
  /** By content id: the first entry in its list. */
  #first = new Int32Array(1024);
  // By entry.
  #replica = new Int32Array(1024);
  #key = new Uint32Array(1024);
  /** The same replica's entry of the block before. */
  #parent = new Int32Array(1024);
  /** Next entry of the same block, of another replica; for free entries the next free one. */
  #nextOfBlock = new Int32Array(1024);
  #older = new Int32Array(1024);
  #newer = new Int32Array(1024);
  #entryCount = 1;
  #free = none;
  // By replica.
  readonly #blocks: Float64Array;
  readonly #oldest: Int32Array;
  readonly #newest: Int32Array;

  constructor(replicaCount: number, maxBlocks: number) {
    this.#maxBlocks = maxBlocks;
    this.#blocks = new Float64Array(replicaCount);
    this.#oldest = new Int32Array(replicaCount);
    this.#newest = new Int32Array(replicaCount);
  }

  /** Allocated entries, in use or free: memory is proportional to it. */
  get capacity(): number {
    return this.#key.length;
  }

  /** Length of the longest prefix of `keys[start .. start + count)` that is in any tree, in blocks. */
  match(keys: Uint32Array, start: number, count: number): number {
    const first = this.#first;
    let known = 0;
    while (known < count && first[keys[start + known]] > none) known++;
    return known;
  }

  /** Writes the replicas whose tree has the block to `into`, in no particular order; returns their number. */
  replicasWith(key: number, into: Int32Array): number {
    let count = 0;
    for (let entry = this.#first[key]; entry !== none; entry = this.#nextOfBlock[entry])
      into[count++] = this.#replica[entry];
    return count;
  }

  /** The replica with the smallest tree; the first one on a tie. */
  smallest(): number {
    let smallest = 0;
    for (let i = 1; i < this.#blocks.length; i++) if (this.#blocks[i] < this.#blocks[smallest]) smallest = i;
    return smallest;
  }

  /** Inserts `keys[start .. start + count)` into the replica's tree; the first `matched` are in the tree of some replica. */
  insert(keys: Uint32Array, start: number, count: number, matched: number, replica: number): void {
    // Blocks beyond the size of a whole tree would be evicted at once.
    const end = Math.min(count, this.#maxBlocks);
    const own = this.#ownBlocks(keys, start, Math.min(matched, end), replica);
    let last = own === 0 ? none : this.#find(keys[start + own - 1], replica);
    for (let i = own; i < end; i++) last = this.#create(keys[start + i], replica, last);
    for (let entry = last; entry !== none; entry = this.#parent[entry]) {
      this.#unlink(entry, replica);
      this.#append(entry, replica);
    }
    while (this.#blocks[replica] > this.#maxBlocks) this.#remove(this.#oldest[replica], replica);
  }

  /**
   * Number of the first `matched` blocks that are in this replica's tree. Binary search is valid because a tree that contains a
   * block contains all blocks before it.
   */
  #ownBlocks(keys: Uint32Array, start: number, matched: number, replica: number): number {
    let from = 0;
    let to = matched;
    // The whole prefix is tried first: most requests go to a replica that has it.
    for (let middle = matched; from < to; middle = (from + to + 1) >>> 1) {
      if (this.#find(keys[start + middle - 1], replica) !== none) from = middle;
      else to = middle - 1;
    }
    return from;
  }

  #find(key: number, replica: number): number {
    let entry = this.#first[key];
    while (entry !== none && this.#replica[entry] !== replica) entry = this.#nextOfBlock[entry];
    return entry;
  }

  /** A new entry, not yet in the replica's LRU list. */
  #create(key: number, replica: number, parent: number): number {
    if (key >= this.#first.length) this.#first = grown(this.#first, Math.max(key + 1, 2 * this.#first.length));
    let entry = this.#free;
    if (entry !== none) this.#free = this.#nextOfBlock[entry];
    else {
      entry = this.#entryCount++;
      if (entry === this.#key.length) this.#grow();
    }
    this.#replica[entry] = replica;
    this.#key[entry] = key;
    this.#parent[entry] = parent;
    this.#nextOfBlock[entry] = this.#first[key];
    this.#first[key] = entry;
    this.#older[entry] = this.#newer[entry] = entry;
    this.#blocks[replica]++;
    return entry;
  }

  #remove(entry: number, replica: number): void {
    this.#unlink(entry, replica);
    const key = this.#key[entry];
    if (this.#first[key] === entry) this.#first[key] = this.#nextOfBlock[entry];
    else {
      let before = this.#first[key];
      while (this.#nextOfBlock[before] !== entry) before = this.#nextOfBlock[before];
      this.#nextOfBlock[before] = this.#nextOfBlock[entry];
    }
    this.#nextOfBlock[entry] = this.#free;
    this.#free = entry;
    this.#blocks[replica]--;
  }

  /** An entry that is not in the LRU list is linked to itself. */
  #unlink(entry: number, replica: number): void {
    const older = this.#older[entry];
    const newer = this.#newer[entry];
    if (older === entry) return;
    if (older === none) this.#oldest[replica] = newer;
    else this.#newer[older] = newer;
    if (newer === none) this.#newest[replica] = older;
    else this.#older[newer] = older;
  }

  #append(entry: number, replica: number): void {
    const newest = this.#newest[replica];
    this.#older[entry] = newest;
    this.#newer[entry] = none;
    if (newest === none) this.#oldest[replica] = entry;
    else this.#newer[newest] = entry;
    this.#newest[replica] = entry;
  }

  #grow(): void {
    const length = 2 * this.#key.length;
    this.#replica = grown(this.#replica, length);
    this.#key = grown(this.#key, length);
    this.#parent = grown(this.#parent, length);
    this.#nextOfBlock = grown(this.#nextOfBlock, length);
    this.#older = grown(this.#older, length);
    this.#newer = grown(this.#newer, length);
  }
}
