import { blockQueue } from "../allocator/block-queue.ts";
import { lru } from "../eviction/lru.ts";
import { hashTable } from "../index/hash-table.ts";
import type { Preset } from "../preset.ts";

/**
 * vLLM 0.19 (April 2026), before PR 42656: free and idle blocks are in one queue, in the order of their release. Limits of a step
 * are those of the API server (vllm/engine/arg_utils.py, `get_batch_defaults`).
 */
export const vllm019: Preset = {
  name: "vllm@0.19",
  about: "as vllm, but free and idle blocks are in one queue",
  source: "vLLM 0.19 (v1 engine)",
  link: "https://github.com/vllm-project/vllm/blob/v0.19.0/vllm/v1/core/kv_cache_manager.py",
  index: hashTable,
  eviction: lru,
  allocator: blockQueue,
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
    "free-queue": "single",
    collision: "trust",
  },
};
