import { block } from "../allocator/block.ts";
import { lruDeepest } from "../eviction/lru-deepest.ts";
import { hashTable } from "../index/hash-table.ts";
import type { Preset } from "../preset.ts";

/**
 * The v0 engine since its scheduler counts cached tokens (PR 10128): of a prompt that is cached to its end, all tokens but the
 * last are hits.
 */
export const vllmV008: Preset = {
  name: "vllm-v0@0.8",
  about: "as vllm-v0, but all tokens except the last of a completely cached prompt are hits",
  source: "vLLM 0.7 and 0.8 (v0 engine)",
  link: "https://github.com/vllm-project/vllm/blob/v0.8.0/vllm/core/block/prefix_caching_block.py",
  index: hashTable,
  eviction: lruDeepest,
  allocator: block,
  scheduler: "fcfs",
  blockTokens: 16,
  rules: {
    "full-hit": "rewrite-miss",
    publish: "allocation",
    "same-step": "recompute",
    "cache-generated": "true",
    duplicates: "share",
    collision: "trust",
  },
};
