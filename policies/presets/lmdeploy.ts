import { block } from "../allocator/block.ts";
import { lru } from "../eviction/lru.ts";
import { blockTrie } from "../index/block-trie.ts";
import type { Preset } from "../preset.ts";

/**
 * One node a block. A sequence publishes its full blocks when they are allocated, answers included; where the trie has an
 * equal block, it takes that one and gives its own back.
 */
export const lmdeploy: Preset = {
  name: "lmdeploy",
  about: "block trie, leaves by last use; a block is a hit only if it ends before the prompt does",
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
