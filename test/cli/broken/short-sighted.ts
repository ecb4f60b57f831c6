import type { IndexPlugin } from "../../../index.ts";
import { hashTable } from "../../../policies/index/hash-table.ts";

/** A hash table whose matches are at most one block. */
const shortSighted: IndexPlugin = {
  ...hashTable,
  name: "short-sighted",
  create(context, blockCount) {
    const table = hashTable.create(context, blockCount);
    const { match } = table;
    table.match = (keys, start, count, found, length) =>
      match.call(table, keys, start, Math.min(count, 1), found, length);
    return table;
  },
};

export default shortSighted;
