import { blockList } from "../../policies/allocator/block-list.ts";
import { lru } from "../../policies/eviction/lru.ts";
import { radixTree } from "../../policies/index/radix-tree.ts";
import type { CacheParts } from "./driven-cache.ts";

/** TGI v3's radix allocator: the worst case is reserved, whole prompts are stored at the end, and may be full hits. */
export const tgiCache = (blockTokens: number, blocks: number): CacheParts => ({
  index: radixTree,
  eviction: lru,
  allocator: blockList,
  rules: {
    "match-limit": "all",
    // A full hit computes its last token again where it is, also if others use that block: no copy.
    "full-hit": "stored-logits",
    publish: "finish",
    reserve: "worst-case",
    "victim-unit": "tail",
  },
  blockTokens,
  blocks,
});
