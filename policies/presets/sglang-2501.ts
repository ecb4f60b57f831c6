import { blockQueue } from "../allocator/block-queue.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * SGLang before PR 3029: of a node that a prompt matches only in part, only that part is renewed; and a request that finishes
 * with its prefill does not renew a node that ends with its prompt.
 */
export const sglang2501: Preset = {
  name: "sglang@2501",
  about: "as sglang, but the rest of a partially matched node keeps its recency",
  source: "SGLang RadixAttention, January 2025 (0.4.1)",
  link: "https://github.com/sgl-project/sglang/blob/v0.4.1/python/sglang/srt/mem_cache/radix_cache.py",
  index: radixTree,
  eviction: lru,
  allocator: blockQueue,
  scheduler: "lpm",
  // Below 25,000 MiB.
  deviceOptions: [
    { memoryGiB: 0, schedulerOptions: { "chunked-prefill-size": 2048 } },
    { memoryGiB: 24.4, schedulerOptions: { "chunked-prefill-size": 8192 } },
  ],
  blockTokens: 1,
  rules: {
    "match-limit": "l-1",
    publish: "chunk",
    "cache-generated": "true",
    duplicates: "free",
    "victim-unit": "node",
    "evict-amount": "needed",
  },
};
