import { blockQueue } from "../allocator/block-queue.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * The same radix tree as SGLang, with another scheduler.
 */
export const miniSglang: Preset = {
  name: "mini-sglang",
  about: "radix tree with pages of 1 token; LRU evicts whole leaf nodes; FCFS scheduling",
  source: "mini-sglang",
  link: "https://github.com/sgl-project/mini-sglang",
  index: radixTree,
  eviction: lru,
  allocator: blockQueue,
  scheduler: "mini-sglang",
  blockTokens: 1,
  rules: {
    "match-limit": "l-1",
    publish: "chunk",
    "cache-generated": "true",
    "victim-unit": "node",
  },
};
