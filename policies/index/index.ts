export { blockTrie } from "./block-trie.ts";
export { hashTable } from "./hash-table.ts";
export { noIndex } from "./none.ts";
export { radixTree } from "./radix-tree.ts";
