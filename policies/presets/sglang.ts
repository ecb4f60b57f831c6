import { blockQueue } from "../allocator/block-queue.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * One token per slot; a node is evicted as a whole. A node that a prompt matches only in part is split, and both parts are
 * renewed (PR 3029, March 2025). If too few slots are free, as many are evicted as the prompt needs, not only those that are
 * missing. SGLang's other strategies are `--eviction lfu`, `fifo`, `mru`, `filo`, `slru` and `priority`; its page size is
 * `--block-size`.
 */
export const sglang: Preset = {
  name: "sglang",
  about: "radix tree with pages of 1 token, LRU by whole leaves; published after each prefill chunk",
  source: "SGLang RadixAttention",
  link: "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/mem_cache/radix_cache.py",
  index: radixTree,
  eviction: lru,
  allocator: blockQueue,
  scheduler: "lpm",
  deviceOptions: [
    { memoryGiB: 0, schedulerOptions: { "chunked-prefill-size": 2048 } },
    { memoryGiB: 35, schedulerOptions: { "chunked-prefill-size": 4096 } },
    { memoryGiB: 60, schedulerOptions: { "chunked-prefill-size": 8192 } },
    { memoryGiB: 160, schedulerOptions: { "chunked-prefill-size": 16384 } },
  ],
  blockTokens: 1,
  rules: {
    "match-limit": "l-1",
    publish: "chunk",
    "cache-generated": "true",
    "victim-unit": "node",
    "node-match": "renew",
    "evict-amount": "needed",
  },
};
