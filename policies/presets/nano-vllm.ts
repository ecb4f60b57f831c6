import { blockQueue } from "../allocator/block-queue.ts";
import { lru } from "../eviction/lru.ts";
import { hashTable } from "../index/hash-table.ts";
import type { Preset } from "../preset.ts";

/**
 * One queue of all unreferenced blocks, cached or not, in release order. A block is published after the step that computes
 * it.
 */
export const nanoVllm: Preset = {
  name: "nano-vllm",
  about: "hash table, one queue of free and idle blocks; of duplicates the newest is matched",
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
