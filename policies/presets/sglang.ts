import { blockQueue } from "../allocator/block-queue.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * Every token is a slot. A node goes as a whole. `--eviction lfu`, `fifo`, `mru`, `filo`, `slru` and `priority` are its
 * other strategies, `--block-size` its page size.
 */
export const sglang: Preset = {
  name: "sglang",
  about: "radix tree by token, whole leaves by last use; found after each prefill chunk",
  source: "SGLang RadixAttention",
  link: "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/mem_cache/radix_cache.py",
  index: radixTree,
  eviction: lru,
  allocator: blockQueue,
  scheduler: "lpm",
  blockTokens: 1,
  rules: {
    "match-limit": "l-1",
    publish: "chunk",
    "cache-generated": "true",
    "victim-unit": "node",
  },
};
