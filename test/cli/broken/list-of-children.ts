import type { IndexPlugin } from "../../../index.ts";
import { hashTable } from "../../../policies/index/hash-table.ts";

/** Correct, but the children of a block are in a list that is searched linearly. */
const listOfChildren: IndexPlugin = {
  ...hashTable,
  name: "list-of-children",
  create(context, blockCount) {
    const table = hashTable.create(context, blockCount);
    const children = new Map<number, number[]>();
    const { match, insert } = table;
    const own: Pick<typeof table, "match" | "insert"> = {
      match(keys, start, count, blocks, found) {
        for (let i = 1; i < count; i++) if (!children.get(keys[start + i - 1])?.includes(keys[start + i])) break;
        match.call(table, keys, start, count, blocks, found);
      },
      insert(insertion) {
        const { keys, start, from, to } = insertion;
        for (let i = Math.max(1, from); i < to; i++) {
          const siblings = children.get(keys[start + i - 1]) ?? [];
          if (siblings.length === 0) children.set(keys[start + i - 1], siblings);
          if (siblings.length > blockCount) siblings.shift();
          siblings.push(keys[start + i]);
        }
        return insert.call(table, insertion);
      },
    };
    return Object.assign(table, own);
  },
};

export default listOfChildren;
