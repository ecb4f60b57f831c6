import { block } from "../../policies/allocator/block.ts";
import { blockQueue } from "../../policies/allocator/block-queue.ts";
import { lru } from "../../policies/eviction/lru.ts";
import { blockTrie } from "../../policies/index/block-trie.ts";
import type { CacheParts } from "./driven-cache.ts";

/** LMDeploy's PyTorch engine: blocks are published after the step, and hits end before the request does. */
export const lmdeployTrie = (blockTokens: number, blocks: number): CacheParts => ({
  index: blockTrie,
  eviction: lru,
  allocator: block,
  rules: { "match-limit": "block-before-l", publish: "step", "cache-generated": "true" },
  blockTokens,
  blocks,
});

/** The demo of LMDeploy's issue 1407, as it means to work: published when allocated, whole prompts may be hits. */
export const demoTrie = (blockTokens: number, blocks: number): CacheParts => ({
  index: blockTrie,
  eviction: lru,
  allocator: blockQueue,
  rules: { "match-limit": "all", "full-hit": "stored-logits", publish: "allocation" },
  blockTokens,
  blocks,
});
