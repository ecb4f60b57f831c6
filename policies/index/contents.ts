import { grown } from "../../core/grown.ts";
import type { Match } from "../../core/plugins/index.ts";

/** Values in an array of blocks by content id for content that is not stored. */
export const absent = { never: -1, evicted: -2 } as const;

// A module constant, because a property of an imported object costs a load in the innermost loops.
const never = absent.never;

/** Grows an array of blocks by content id so that it has room for all ids below `distinct`. */
export function grownForKeys(blockOf: Int32Array, distinct: number): Int32Array {
  const known = blockOf.length;
  return distinct <= known ? blockOf : grown(blockOf, Math.max(distinct, 2 * known)).fill(never, known);
}

/**
 * `PrefixIndex.match` of a tree. `before`: by stored block, the block before it in its prompt. Writes the matched blocks
 * to `table`, then `never` or `evicted` for the other contents.
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
    // With the rule `collision=trust`, a content may be stored on another path.
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
