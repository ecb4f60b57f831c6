import { block } from "../allocator/block.ts";
import { lru } from "../eviction/lru.ts";
import { blockTrie } from "../index/block-trie.ts";
import type { Preset } from "../preset.ts";

/**
 * One trie node per block. A sequence publishes its full blocks at allocation, output tokens included; where the trie has a
 * block with the same content, the sequence references that one and releases its own.
 */
export const lmdeploy: Preset = {
  name: "lmdeploy",
  about: "block trie, LRU by leaves; a block is a hit only if it ends before the end of the prompt",
  source: "LMDeploy, PyTorch engine (PR 1429)",
  link: "https://github.com/InternLM/lmdeploy/pull/1429",
  index: blockTrie,
  eviction: lru,
  allocator: block,
  scheduler: "fcfs",
  blockTokens: 64,
  rules: {
    "match-limit": "block-before-l",
    publish: "allocation",
    "cache-generated": "true",
  },
};
