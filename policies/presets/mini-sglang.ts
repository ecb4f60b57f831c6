import { blockQueue } from "../allocator/block-queue.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * SGLang's cache in short: the same tree, another scheduler.
 */
export const miniSglang: Preset = {
  name: "mini-sglang",
  about: "radix tree by token, whole leaves by last use; served in order of arrival",
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
