// The innermost loops, as plain functions over typed arrays and integers, which V8 compiles to tight loops. `words` is
// BlockPool.words; a negative block in a table is a hole. `| 0` keeps a number an integer.
import { BlockState, blockWord } from "./pool.ts";

const free = blockWord(BlockState.free, 0);
const publishedOnce = blockWord(BlockState.published, 1);
const computingOnce = blockWord(BlockState.computing, 1);
const idle = blockWord(BlockState.idle, 0);
const refCount = blockWord(BlockState.reserved, 0) - 1;

/** Number of idle blocks (cached and unreferenced) in `table[from .. to)`. */
export function countIdle(table: Int32Array, from: number, to: number, words: Int32Array): number {
  let count = 0;
  for (let i = from | 0; i < to; i++) {
    const block = table[i];
    if (block >= 0 && words[block] === idle) count++;
  }
  return count;
}

/** Number of elements below `limit` in `table[from .. to)`. */
export function countBelow(table: Int32Array, from: number, to: number, limit: number): number {
  let count = 0;
  for (let i = from | 0; i < to; i++) if (table[i] < limit) count++;
  return count;
}

/** References `table[from .. to)`; writes blocks that were idle to `list` from `at`. Returns the end of the list. */
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
 * Releases `table[0 .. count)`, from its end unless `forward`. Writes cached blocks whose reference count becomes 0 to `list`
 * and returns their number; private blocks become free.
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
 * Sets the words of `table[from .. to)`, which become private blocks of one request, from `was` to `word`. Returns the index
 * of the first block whose word is not `was`, or −1.
 */
export function own(table: Int32Array, from: number, to: number, words: Int32Array, was: number, word: number): number {
  for (let i = from | 0; i < to; i++) {
    const block = table[i];
    if (words[block] !== was) return i;
    words[block] = word;
  }
  return -1;
}

/**
 * Moves the private blocks of `table[from .. to)`, which the index now stores, from computing to published; returns their
 * number.
 */
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
 * Moves evicted blocks from idle to free and writes them to `table[at ..)`. Returns the index in `blocks` of the first that
 * is not idle, or −1.
 */
export function reuseEvicted(
  blocks: Int32Array,
  count: number,
  table: Int32Array,
  at: number,
  words: Int32Array,
): number {
  const shift = at | 0;
  for (let i = 0; i < count; i++) {
    const block = blocks[i];
    if (words[block] !== idle) return i;
    words[block] = free;
    table[shift + i] = block;
  }
  return -1;
}
