import type { IndexPlugin } from "../../../index.ts";
import { hashTable } from "../../../policies/index/hash-table.ts";

/** Correct, but every eviction scans all blocks. */
const linearIndex: IndexPlugin = {
  ...hashTable,
  name: "linear-index",
  create(context, blockCount) {
    const table = hashTable.create(context, blockCount);
    const { evict } = table;
    return Object.assign(table, {
      evictMany: undefined,
      evict(entry: number, wantedBlocks: number) {
        let evictable = 0;
        for (let block = 0; block < blockCount; block++) if (table.isEvictable(block)) evictable++;
        if (evictable > 0) evict.call(table, entry, wantedBlocks);
      },
    });
  },
};

export default linearIndex;
