import { grown } from "../../core/grown.ts";

/** Order in which LRU evicts the blocks of one request: from the end of the prompt (`reverse`) or from its beginning. */
export type EvictionOrder = "reverse" | "forward";

/**
 * The LRU stack of all blocks (Mattson et al. 1970), for prefixes: a block is cached in a cache of C blocks if and only if its
 * *distance* is at most C. The distance is the largest number of blocks, up to the block itself, that were needed at one time
 * since its last access: blocks above it in the stack, and private blocks of the request that ran then. docs/curve.md has the proof.
 *
 * The stack has one element per request in place of one per block: the blocks whose last access was request r are the end of its
 * prompt, because a later request that accesses one of them also accesses all blocks before it. A lookup costs O(log requests)
 * per run of blocks with the same last access.
 *
 *   stack    most recent request … request r: [blocks a … n of its prompt] … oldest request
 *   prompt   [0 … a) accessed again by later requests   [a … n) last accessed by r
 *
 * Memory: 4 bytes per content id, and 8 per request that has blocks.
 */
export class RecencyStack {
  readonly #forward: boolean;
  /** By content id: number of the last request that accessed it, from 1; 0 = none. */
  #last = new Uint32Array(1024);
  /** By request: its blocks in the stack, and the same as a Fenwick tree: element i has the sum of the last `i & −i` requests. */
  #blocks = new Int32Array(1024);
  #sums = new Int32Array(1024);
  #requests = 0;
  #total = 0;
  /**
   * Free blocks, from the top of the stack: `#free[i]` blocks below the requests after `#freeBelow[i]`. They were private blocks, or
   * were not needed since. A cache that is so large that it contains a block below them has them free.
   */
  #freeBelow: number[] = [];
  #free: number[] = [];
  // Runs of the request under way: their last request and their length.
  readonly #runs: number[] = [];
  readonly #lengths: number[] = [];
  /** By block of the last prompt that was accessed: its distance. */
  distances = new Int32Array(64);

  constructor(order: EvictionOrder) {
    this.#forward = order === "forward";
  }

  /** Content ids below `distinct` may occur from now on. */
  expectKeys(distinct: number): void {
    if (distinct > this.#last.length) this.#last = grown(this.#last, Math.max(distinct, 2 * this.#last.length));
  }

  /** An independent copy. */
  clone(): RecencyStack {
    const copy = new RecencyStack(this.#forward ? "forward" : "reverse");
    copy.#last = this.#last.slice();
    copy.#blocks = this.#blocks.slice();
    copy.#sums = this.#sums.slice();
    copy.#requests = this.#requests;
    copy.#total = this.#total;
    copy.#freeBelow = [...this.#freeBelow];
    copy.#free = [...this.#free];
    copy.distances = this.distances.slice();
    return copy;
  }

  /**
   * A request accesses the blocks `keys[from .. from + count)` and needs `privateBlocks` more until it ends. Writes the distances
   * that the blocks had before; returns the number of blocks with a distance, which are a prefix.
   */
  access(keys: Uint32Array, from: number, count: number, privateBlocks: number): number {
    if (this.#requests + 1 === this.#blocks.length) this.#renumber();
    if (count > this.distances.length) this.distances = new Int32Array(2 * count);
    const last = this.#last;
    const request = ++this.#requests;
    const runs = this.#runs;
    runs.length = this.#lengths.length = 0;
    const start = from | 0;
    let known = 0;
    while (known < count) {
      const run = last[keys[start + known]];
      if (run === 0) break;
      const first = known;
      for (; known < count && last[keys[start + known]] === run; known++) last[keys[start + known]] = request;
      this.#measure(run, first, known);
      runs.push(run);
      this.#lengths.push(known - first);
    }
    for (let i = known; i < count; i++) last[keys[start + i]] = request;
    for (let i = 0; i < runs.length; i++) this.#add(runs[i], -this.#lengths[i]);
    if (count > 0) this.#add(request, count);
    this.#total += count - known;
    if (privateBlocks > 0 || this.#free.length > 0) this.#occupy(count, privateBlocks);
    return known;
  }

  /** Distances of blocks `[from, to)` of the prompt, which are the first blocks of `request` in the stack. */
  #measure(request: number, from: number, to: number): void {
    const { distances } = this;
    let free = 0;
    for (let i = 0; i < this.#free.length && this.#freeBelow[i] >= request; i++) free += this.#free[i];
    const above = this.#total - this.#sumTo(request) + free;
    if (this.#forward) {
      const blocks = this.#blocks[request];
      for (let i = from; i < to; i++) distances[i] = above + blocks - (i - from);
    } else {
      for (let i = from; i < to; i++) distances[i] = above + 1 + (i - from);
    }
  }

  /**
   * The blocks of the request and its private ones are at the top of the stack. They fill the free places nearest to the top; the places of
   * the accessed blocks are free before, and those of the private blocks are free at the end.
   */
  #occupy(count: number, privateBlocks: number): void {
    const below: number[] = [this.#requests];
    const free: number[] = [privateBlocks];
    if (privateBlocks === 0) below.length = free.length = 0;
    let filled = count + privateBlocks;
    const runs = this.#runs;
    for (let i = 0, r = 0; i < this.#free.length || r < runs.length; ) {
      const runBelow = r < runs.length ? runs[r] - (this.#forward ? 1 : 0) : -1;
      const isRun = i === this.#free.length || runBelow > this.#freeBelow[i];
      const place = isRun ? runBelow : this.#freeBelow[i];
      const blocks = isRun ? this.#lengths[r++] : this.#free[i++];
      const left = Math.max(0, blocks - filled);
      filled -= blocks - left;
      if (left === 0) continue;
      below.push(place);
      free.push(left);
    }
    this.#freeBelow = below;
    this.#free = free;
  }

  #sumTo(request: number): number {
    const sums = this.#sums;
    let sum = 0;
    for (let i = request; i > 0; i &= i - 1) sum += sums[i];
    return sum;
  }

  #add(request: number, blocks: number): void {
    this.#blocks[request] += blocks;
    const sums = this.#sums;
    for (let i = request; i < sums.length; i += i & -i) sums[i] += blocks;
  }

  /** Numbers the requests that have blocks from 1, with room for at least as many more. */
  #renumber(): void {
    const numbers = new Uint32Array(this.#requests + 1);
    let count = 0;
    for (let r = 1; r <= this.#requests; r++) {
      if (this.#blocks[r] > 0) this.#blocks[++count] = this.#blocks[r];
      numbers[r] = count;
    }
    const last = this.#last;
    for (let key = 0; key < last.length; key++) last[key] = numbers[last[key]];
    this.#freeBelow = this.#freeBelow.map((request) => numbers[request]);
    let { length } = this.#blocks;
    while (2 * count >= length) length *= 2;
    this.#blocks = grown(this.#blocks.subarray(0, count + 1), length);
    this.#sums = new Int32Array(length);
    for (let i = 1; i < length; i++) {
      this.#sums[i] += this.#blocks[i];
      const next = i + (i & -i);
      if (next < length) this.#sums[next] += this.#sums[i];
    }
    this.#requests = count;
  }
}
