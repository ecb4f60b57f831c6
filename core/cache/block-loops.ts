// The innermost loops, as plain functions over typed arrays and integers, which a compiler turns into plain loops.
// `words` is BlockPool.words; a negative block in a table is a hole. `| 0` says that a number is an integer.
import { BlockState, blockWord } from "./pool.ts";

const free = blockWord(BlockState.free, 0);
const publishedOnce = blockWord(BlockState.published, 1);
const computingOnce = blockWord(BlockState.computing, 1);
const idle = blockWord(BlockState.idle, 0);
const refCount = blockWord(BlockState.reserved, 0) - 1;

/** Of `table[from .. to)`, how many blocks are idle: cached and unreferenced. */
export function countIdle(table: Int32Array, from: number, to: number, words: Int32Array): number {
  let count = 0;
  for (let i = from | 0; i < to; i++) {
    const block = table[i];
    if (block >= 0 && words[block] === idle) count++;
  }
  return count;
}

/** Of `table[from .. to)`, how many are below `limit`. */
export function countBelow(table: Int32Array, from: number, to: number, limit: number): number {
  let count = 0;
  for (let i = from | 0; i < to; i++) if (table[i] < limit) count++;
  return count;
}

/** References `table[from .. to)`; blocks that were idle are written to `list` from `at`. Returns its new length. */
export function reference(
  table: Int32Array,
  from: number,
  to: number,
  words: Int32Array,
  list: Int32Array,
  at: number,
): number {
  let count = at | 0;
  for (let i = from | 0; i < to; i++) {
    const block = table[i];
    if (block < 0) continue;
    const word = words[block];
    if (word === idle) {
      words[block] = publishedOnce;
      list[count++] = block;
    } else {
      words[block] = word + 1;
    }
  }
  return count;
}

/**
 * Releases `table[0 .. count)`, from its end unless `forward`. Cached blocks whose reference count becomes 0 are written to
 * `list`, whose length is returned; private blocks become free.
 */
export function release(
  table: Int32Array,
  count: number,
  forward: boolean,
  words: Int32Array,
  list: Int32Array,
): number {
  let released = 0;
  const last = (count | 0) - 1;
  for (let n = 0; n <= last; n++) {
    const block = table[forward ? n : last - n];
    if (block < 0) continue;
    const word = words[block];
    if (word === publishedOnce) {
      words[block] = idle;
      list[released++] = block;
    } else {
      words[block] = (word & refCount) > 1 ? word - 1 : free;
    }
  }
  return released;
}

/**
 * Moves `table[from .. to)` from state `was` to `word`, private blocks of one request. Returns the place of the first block
 * that is not in state `was`, or −1.
 */
export function own(table: Int32Array, from: number, to: number, words: Int32Array, was: number, word: number): number {
  for (let i = from | 0; i < to; i++) {
    const block = table[i];
    if (words[block] !== was) return i;
    words[block] = word;
  }
  return -1;
}

/** Private blocks of `table[from .. to)` that the index has stored: computing → published. Returns how many. */
export function publishOwn(table: Int32Array, from: number, to: number, words: Int32Array): number {
  let count = 0;
  for (let i = from | 0; i < to; i++) {
    const block = table[i];
    if (words[block] !== computingOnce) continue;
    words[block] = publishedOnce;
    count++;
  }
  return count;
}

/**
 * Moves idle blocks to `table[at ..)`, free. Returns the place in `blocks` of the first that is not idle, or −1.
 */
export function handOver(blocks: Int32Array, count: number, table: Int32Array, at: number, words: Int32Array): number {
  const shift = at | 0;
  for (let i = 0; i < count; i++) {
    const block = blocks[i];
    if (words[block] !== idle) return i;
    words[block] = free;
    table[shift + i] = block;
  }
  return -1;
}
