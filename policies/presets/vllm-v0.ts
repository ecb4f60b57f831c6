import { block } from "../allocator/block.ts";
import { lruDeepest } from "../eviction/lru-deepest.ts";
import { hashTable } from "../index/hash-table.ts";
import type { Preset } from "../preset.ts";

/**
 * A block is found by its hash as soon as it is allocated, and shared, but counts as a hit only after the step that
 * computes it. A block that an answer completes gives way to an equal one.
 */
export const vllmV0: Preset = {
  name: "vllm-v0",
  about: "hash table, least recently used and of equals the deepest; found blocks are shared before they are computed",
  source: "vLLM 0.4 to 0.8 (v0 engine)",
  link: "https://github.com/vllm-project/vllm/blob/v0.6.0/vllm/core/block/prefix_caching_block.py",
  index: hashTable,
  eviction: lruDeepest,
  allocator: block,
  scheduler: "fcfs",
  blockTokens: 16,
  rules: {
    "full-hit": "rewrite-last",
    publish: "allocation",
    "same-step": "recompute",
    "cache-generated": "true",
    duplicates: "share",
    collision: "trust",
  },
};
