import { grown } from "../../core/grown.ts";
import type { Match } from "../../core/plugins.ts";

/** What the place of a content holds that is not stored, instead of a block. */
export const absent = { never: -1, evicted: -2 } as const;

// A module constant, because a property of an imported object costs a load in the innermost loops.
const never = absent.never;

/** Room for content ids below `distinct` in an array of blocks by content. */
export function roomFor(blockOf: Int32Array, distinct: number): Int32Array {
  const known = blockOf.length;
  return distinct <= known ? blockOf : grown(blockOf, Math.max(distinct, 2 * known)).fill(never, known);
}

/** Nothing is found from block `found.blocks` on: says so in `table`, and what of it was stored before. */
export function notFound(
  blockOf: Int32Array,
  keys: Uint32Array,
  start: number,
  count: number,
  table: Int32Array,
  found: Match,
): void {
  const shift = start | 0;
  let evicted = 0;
  for (let i = found.blocks | 0; i < count; i++) {
    const mark = Math.min(never, blockOf[keys[shift + i]]);
    table[i] = mark;
    evicted += never - mark;
  }
  found.absent = count - found.blocks;
  found.evicted = evicted;
}
