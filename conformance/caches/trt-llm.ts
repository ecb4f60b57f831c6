import type { RuleName, RuleValue } from "../../core/rules.ts";
import { blockQueue } from "../../policies/allocator/block-queue.ts";
import { lru } from "../../policies/eviction/lru.ts";
import { blockTrie } from "../../policies/index/block-trie.ts";
import type { CacheParts } from "./driven-cache.ts";

/** TensorRT-LLM's block manager: blocks are stored when a request ends, the last incomplete one too, and used in part. */
export const trtLlm = (
  blockTokens: number,
  blocks: number,
  rules: Partial<Record<RuleName, RuleValue>>,
): CacheParts => ({
  index: blockTrie,
  eviction: lru,
  allocator: blockQueue,
  rules: { publish: "finish", "cache-generated": "true", "store-tail": "true", ...rules },
  blockTokens,
  blocks,
});
