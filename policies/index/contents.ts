import { grown } from "../../core/grown.ts";
import type { Match } from "../../core/plugins/index.ts";

/** What the place of a content holds that is not stored, instead of a block. */
export const absent = { never: -1, evicted: -2 } as const;

// A module constant, because a property of an imported object costs a load in the innermost loops.
const never = absent.never;

/** Room for content ids below `distinct` in an array of blocks by content. */
export function roomFor(blockOf: Int32Array, distinct: number): Int32Array {
  const known = blockOf.length;
  return distinct <= known ? blockOf : grown(blockOf, Math.max(distinct, 2 * known)).fill(never, known);
}

/**
 * `PrefixIndex.match` in a tree: `before` is the block that precedes a stored one in its prompt. What is not found is said
 * in `table`, and how much of it was stored before.
 */
export function matchPath(
  blockOf: Int32Array,
  before: Int32Array,
  keys: Uint32Array,
  start: number,
  count: number,
  table: Int32Array,
  found: Match,
): void {
  const shift = start | 0;
  let i = 0;
  let last = -1;
  for (; i < count; i++) {
    const block = blockOf[keys[shift + i]];
    // Where hashes are trusted, a content may be stored on another path.
    if (block < 0 || before[block] !== last) break;
    table[i] = last = block;
  }
  found.blocks = i;
  found.absent = count - i;
  let evicted = 0;
  for (; i < count; i++) {
    const mark = Math.min(never, blockOf[keys[shift + i]]);
    table[i] = mark;
    evicted += never - mark;
  }
  found.evicted = evicted;
}
