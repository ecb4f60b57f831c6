import { InvariantError } from "../../core/errors.ts";
import type { IndexPlugin, PrefixIndex } from "../../core/plugins/index.ts";

const unused = (method: string) => (): never => {
  throw new InvariantError(`the index "none" stores no blocks, but ${method}() was called`);
};

/** Stores no blocks and matches nothing: the baseline without prefix caching. */
const nothing: PrefixIndex = {
  evictableBlocks: 0,
  blockCount: 0,
  entryCount: 0,
  match: (_keys, _start, count, table, found) => {
    table.fill(-1, 0, count);
    found.blocks = found.evicted = 0;
    found.absent = count;
  },
  matched: () => {},
  insert: ({ from, to, replacements }) => {
    replacements.fill(-1, 0, to - from);
    return false;
  },
  referenced: (_blocks, count) => count > 0 && unused("referenced")(),
  released: (_blocks, count) => count > 0 && unused("released")(),
  evict: unused("evict"),
  drop: unused("drop"),
  entryOf: unused("entryOf"),
  isEvictable: () => false,
  blocks: () => [],
  grow: () => {},
  expectKeys: () => {},
};

export const noIndex: IndexPlugin = {
  name: "none",
  about: "no prefix caching: every prompt is computed",
  source: "baseline",
  storesNothing: true,
  supports: {
    "free-order": "any",
    reserve: "any",
    publish: "any",
    "match-limit": "any",
    "full-hit": "any",
    collision: "any",
  },
  create: () => nothing,
};
