import { blockQueue } from "../allocator/block-queue.ts";
import { lru } from "../eviction/lru.ts";
import { hashTable } from "../index/hash-table.ts";
import type { Preset } from "../preset.ts";

/**
 * Blocks wait in one queue in the order in which they were let go, cached or not. They are found after the step that
 * computes them.
 */
export const nanoVllm: Preset = {
  name: "nano-vllm",
  about: "hash table and one queue of free and cached blocks; the newest of equal blocks is found",
  source: "nano-vllm",
  link: "https://github.com/GeeeekExplorer/nano-vllm",
  index: hashTable,
  eviction: lru,
  allocator: blockQueue,
  scheduler: "fcfs",
  schedulerOptions: { "max-num-batched-tokens": 16384, "max-num-seqs": 512, watermark: 0 },
  blockTokens: 256,
  rules: {
    "match-limit": "l-1",
    publish: "step",
    "cache-generated": "true",
    duplicates: "newest",
    "free-queue": "single",
  },
};
