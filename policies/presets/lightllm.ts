import { token } from "../allocator/token.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * TokenAttention as first published allocates the lowest free slots; `--allocator token-contiguous` follows its description.
 */
export const lightllm: Preset = {
  name: "lightllm",
  about: "radix tree with pages of 1 token, LRU by whole leaves; token slots; published when a request finishes",
  source: "LightLLM",
  link: "https://github.com/ModelTC/lightllm/blob/main/lightllm/server/router/dynamic_prompt/radix_cache.py",
  index: radixTree,
  eviction: lru,
  allocator: token,
  scheduler: "efficient-router",
  blockTokens: 1,
  rules: {
    "match-limit": "l-1",
    publish: "finish",
    "cache-generated": "true",
    "victim-unit": "node",
  },
};
