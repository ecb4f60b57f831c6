// The innermost loops: plain functions over typed arrays and integers, which the compiler turns into plain loops. What
// they buy: `npm run bench -- loops`.
import { BlockState } from "./pool.ts";

const free = BlockState.free;
const computing = BlockState.computing;
const published = BlockState.published;
const idle = BlockState.idle;

/** Of `table[from .. to)`, how many blocks nobody holds; holes (negative) are passed over. */
export function countUnheld(table: Int32Array, from: number, to: number, refCount: Uint32Array): number {
  let count = 0;
  for (let i = from | 0; i < to; i++) {
    const block = table[i];
    if (block >= 0 && refCount[block] === 0) count++;
  }
  return count;
}

/** Takes hold of `table[from .. to)`; those that nobody held until now go to `list` from `at`. Returns its new length. */
export function hold(
  table: Int32Array,
  from: number,
  to: number,
  refCount: Uint32Array,
  state: Uint8Array,
  list: Int32Array,
  at: number,
): number {
  let count = at | 0;
  for (let i = from | 0; i < to; i++) {
    const block = table[i];
    if (block < 0 || refCount[block]++ > 0) continue;
    state[block] = published;
    list[count++] = block;
  }
  return count;
}

/**
 * Lets go of `table[0 .. count)`, from its end unless `forward`. Blocks that nobody holds now: those that are cached go
 * to `list`, whose length is returned; private ones become free and stay in the table as −2 − block.
 */
export function letGo(
  table: Int32Array,
  count: number,
  forward: boolean,
  refCount: Uint32Array,
  state: Uint8Array,
  list: Int32Array,
): number {
  let released = 0;
  for (let n = 0; n < count; n++) {
    const i = forward ? n : (count | 0) - 1 - n;
    const block = table[i];
    if (block < 0) continue;
    const holders = refCount[block] - 1;
    refCount[block] = holders;
    if (holders > 0) {
      table[i] = -1;
    } else if (state[block] === published) {
      state[block] = idle;
      list[released++] = block;
      table[i] = -1;
    } else {
      state[block] = free;
      table[i] = -2 - block;
    }
  }
  return released;
}

/** Marks the contents of blocks `[from, to)` of a request. */
export function markContents(
  seen: Uint8Array,
  keys: Uint32Array,
  start: number,
  from: number,
  to: number,
  mark: number,
): void {
  const end = (start + to) | 0;
  for (let at = (start + from) | 0; at < end; at++) seen[keys[at]] = mark;
}

/** Of the absent blocks of `table[from .. to)`, how many hold content with this mark. */
export function countMarked(
  table: Int32Array,
  from: number,
  to: number,
  seen: Uint8Array,
  keys: Uint32Array,
  start: number,
  mark: number,
): number {
  let count = 0;
  const shift = start | 0;
  for (let i = from | 0; i < to; i++) if (table[i] < 0 && seen[keys[shift + i]] === mark) count++;
  return count;
}

/**
 * Own blocks that an index has stored: computing → published. Returns how many, or −1 at the first that gives way to
 * another block (`instead`) or is not stored, with nothing done.
 */
export function publishOwn(
  table: Int32Array,
  from: number,
  to: number,
  instead: Int32Array,
  state: Uint8Array,
): number {
  const shift = from | 0;
  for (let i = shift; i < to; i++) if (instead[i - shift] !== table[i]) return -1;
  let count = 0;
  for (let i = shift; i < to; i++) {
    const block = table[i];
    if (state[block] !== computing) continue;
    state[block] = published;
    count++;
  }
  return count;
}
