export { blockTrie } from "./block-trie.ts";
export { hashTable } from "./hash-table.ts";
export { noIndex } from "./none.ts";
export { prefixPool, prefixTrie } from "./prefix-pool.ts";
export { promptTable } from "./prompt-table.ts";
export { radixTree } from "./radix-tree.ts";
export { sortedList } from "./sorted-list.ts";
