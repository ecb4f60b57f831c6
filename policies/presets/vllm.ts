import { block } from "../allocator/block.ts";
import { lru } from "../eviction/lru.ts";
import { hashTable } from "../index/hash-table.ts";
import type { Preset } from "../preset.ts";

/**
 * A hit ends at the last full block before the last token. Free blocks are allocated before any idle block is evicted (PR
 * 42656); before that PR both were in one queue: `vllm@0.19`. Limits of a step are those of the API server
 * (vllm/engine/arg_utils.py, `get_batch_defaults`).
 */
export const vllm: Preset = {
  name: "vllm",
  about: "hash table, LRU; blocks are published at allocation, duplicates are kept",
  source: "vLLM (v1 engine)",
  link: "https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/kv_cache_manager.py",
  index: hashTable,
  eviction: lru,
  allocator: block,
  scheduler: "fcfs-chunked",
  schedulerOptions: { "reserve-full-isl": 1, "async-scheduling": 1 },
  deviceOptions: [
    { memoryGiB: 0, schedulerOptions: { "max-num-batched-tokens": 2048, "max-num-seqs": 256 } },
    { memoryGiB: 70, except: ["a100"], schedulerOptions: { "max-num-batched-tokens": 8192, "max-num-seqs": 1024 } },
  ],
  unusedBlocks: 1,
  blockTokens: 16,
  rules: {
    "match-limit": "l-1",
    publish: "allocation",
    "cache-generated": "true",
    duplicates: "keep",
    collision: "trust",
  },
};
