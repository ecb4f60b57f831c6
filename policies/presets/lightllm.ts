import { token } from "../allocator/token.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * TokenAttention hands out the lowest free slots, as first published; `--allocator token-contiguous` is what its text says.
 */
export const lightllm: Preset = {
  name: "lightllm",
  about: "radix tree by token, whole leaves by last use; token slots by a prefix sum; found when a request ends",
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
