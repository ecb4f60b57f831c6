import { block } from "../allocator/block.ts";
import { lruDeepest } from "../eviction/lru-deepest.ts";
import { hashTable } from "../index/hash-table.ts";
import type { Preset } from "../preset.ts";

/**
 * A block can be matched and shared from its allocation on, but is a hit only after the step that computes it. A block
 * completed by decode is replaced by a cached block with the same content. The last block of a prompt is never a hit: if it
 * is cached, it is shared and recomputed in place. Later versions: `vllm-v0@0.8`.
 */
export const vllmV0: Preset = {
  name: "vllm-v0",
  about: "hash table, LRU, of equals the deepest; matched blocks are shared before they are computed",
  source: "vLLM 0.4 to 0.6 (v0 engine)",
  link: "https://github.com/vllm-project/vllm/blob/v0.6.0/vllm/core/block/prefix_caching_block.py",
  index: hashTable,
  eviction: lruDeepest,
  allocator: block,
  scheduler: "fcfs",
  blockTokens: 16,
  rules: {
    "match-limit": "l-1",
    publish: "allocation",
    "same-step": "recompute",
    "cache-generated": "true",
    duplicates: "share",
    collision: "trust",
  },
};
