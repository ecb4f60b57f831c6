import { grown } from "../../core/grown.ts";

/** No entry; entries count from 1, so that new arrays hold it. */
const none = 0;

/**
 * A tree of prefixes for each replica, in blocks. The trees lie over each other: an entry says that one replica has one
 * block, and the entries of equal blocks are a list, which is found by content id in an array. Chained content ids make
 * it a tree: whoever has a block has all that is before it.
 *
 * A use of a block is one of all blocks before it, and these count as used after it. So the entry of a replica that was
 * used longest ago is always a leaf, and leaves go by last use, as they must, from a plain list:
 *
 *   oldest ─ … ─ deepest of the last prompt ─ … ─ its first block ─ newest
 *
 * Memory is that of the entries, and four bytes for every content id.
 */
export class PrefixTrees {
  /** Most blocks in a tree. */
  readonly #maxBlocks: number;
  /** By content id, the first of its entries. */
  #first = new Int32Array(1024);
  // By entry.
  #replica = new Int32Array(1024);
  #key = new Uint32Array(1024);
  /** Entry of the block before it, of the same replica. */
  #above = new Int32Array(1024);
  /** Entry of the same block, of another replica; of entries that are free the next free one. */
  #alike = new Int32Array(1024);
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

  /** Entries that there is room for: what the trees' memory is in proportion to. */
  get room(): number {
    return this.#key.length;
  }

  /** Blocks of `keys[start .. start + count)` that some tree has, from the first. */
  match(keys: Uint32Array, start: number, count: number): number {
    const first = this.#first;
    let known = 0;
    while (known < count && first[keys[start + known]] > none) known++;
    return known;
  }

  /** Writes the replicas whose tree has the block, in no order; returns how many these are. */
  ownersOf(key: number, into: Int32Array): number {
    let count = 0;
    for (let entry = this.#first[key]; entry !== none; entry = this.#alike[entry]) into[count++] = this.#replica[entry];
    return count;
  }

  /** The replica with the smallest tree; of equals the first. */
  smallest(): number {
    let smallest = 0;
    for (let i = 1; i < this.#blocks.length; i++) if (this.#blocks[i] < this.#blocks[smallest]) smallest = i;
    return smallest;
  }

  /** `keys[start .. start + count)`, of which some tree has the first `known`, went to this replica. */
  insert(keys: Uint32Array, start: number, count: number, known: number, replica: number): void {
    // What is deeper than a whole tree would be the first to go again.
    const end = Math.min(count, this.#maxBlocks);
    const own = this.#ownBlocks(keys, start, Math.min(known, end), replica);
    let last = own === 0 ? none : this.#find(keys[start + own - 1], replica);
    for (let i = own; i < end; i++) last = this.#create(keys[start + i], replica, last);
    for (let entry = last; entry !== none; entry = this.#above[entry]) {
      this.#leaveList(entry, replica);
      this.#joinList(entry, replica);
    }
    while (this.#blocks[replica] > this.#maxBlocks) this.#remove(this.#oldest[replica], replica);
  }

  /** How many of the first `known` blocks this replica has: it has any only with all before it. */
  #ownBlocks(keys: Uint32Array, start: number, known: number, replica: number): number {
    let from = 0;
    let to = known;
    // The whole first: mostly the request goes where its prefix is.
    for (let middle = known; from < to; middle = (from + to + 1) >>> 1) {
      if (this.#find(keys[start + middle - 1], replica) !== none) from = middle;
      else to = middle - 1;
    }
    return from;
  }

  #find(key: number, replica: number): number {
    let entry = this.#first[key];
    while (entry !== none && this.#replica[entry] !== replica) entry = this.#alike[entry];
    return entry;
  }

  /** An entry that is in no list of use yet. */
  #create(key: number, replica: number, above: number): number {
    if (key >= this.#first.length) this.#first = grown(this.#first, Math.max(key + 1, 2 * this.#first.length));
    let entry = this.#free;
    if (entry !== none) this.#free = this.#alike[entry];
    else {
      entry = this.#entryCount++;
      if (entry === this.#key.length) this.#grow();
    }
    this.#replica[entry] = replica;
    this.#key[entry] = key;
    this.#above[entry] = above;
    this.#alike[entry] = this.#first[key];
    this.#first[key] = entry;
    this.#older[entry] = this.#newer[entry] = entry;
    this.#blocks[replica]++;
    return entry;
  }

  #remove(entry: number, replica: number): void {
    this.#leaveList(entry, replica);
    const key = this.#key[entry];
    if (this.#first[key] === entry) this.#first[key] = this.#alike[entry];
    else {
      let before = this.#first[key];
      while (this.#alike[before] !== entry) before = this.#alike[before];
      this.#alike[before] = this.#alike[entry];
    }
    this.#alike[entry] = this.#free;
    this.#free = entry;
    this.#blocks[replica]--;
  }

  /** An entry in no list has itself for a neighbour. */
  #leaveList(entry: number, replica: number): void {
    const older = this.#older[entry];
    const newer = this.#newer[entry];
    if (older === entry) return;
    if (older === none) this.#oldest[replica] = newer;
    else this.#newer[older] = newer;
    if (newer === none) this.#newest[replica] = older;
    else this.#older[newer] = older;
  }

  #joinList(entry: number, replica: number): void {
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
    this.#above = grown(this.#above, length);
    this.#alike = grown(this.#alike, length);
    this.#older = grown(this.#older, length);
    this.#newer = grown(this.#newer, length);
  }
}
