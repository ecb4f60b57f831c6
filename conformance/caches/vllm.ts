import { block } from "../../policies/allocator/block.ts";
import { blockQueue } from "../../policies/allocator/block-queue.ts";
import { lru } from "../../policies/eviction/lru.ts";
import { lruDeepest } from "../../policies/eviction/lru-deepest.ts";
import { hashTable } from "../../policies/index/hash-table.ts";
import { noIndex } from "../../policies/index/none.ts";
import { type Fields, integer, oneOf, shown, Unsupported } from "../values.ts";
import { isOn } from "./asked.ts";
import type { CacheParts } from "./driven-cache.ts";

/** vLLM v1's block pool (and nano-vllm's block manager), by the settings of a case. */
export function vllmPool(config: Fields): CacheParts {
  const { block_size, caching, drop_last_hit_block, null_block, num_blocks } = config;
  const single = queueOf(config["free_order"]);
  const cached = isOn(caching, "caching", true);
  const shared = {
    "match-limit": matchLimit(config),
    publish: publishOf(config["publish"]),
    "free-order": freeOrder(config["free_order"]),
  } as const;
  const reserved = null_block === undefined || null_block === null || null_block === false ? 0 : 1;
  return {
    index: cached ? hashTable : noIndex,
    eviction: lru,
    // Without caching all that is free queues.
    allocator: single || !cached ? blockQueue : block,
    rules: cached
      ? {
          ...shared,
          duplicates: "keep",
          "cache-generated": "true",
          "drop-blocks": isOn(drop_last_hit_block, "drop_last_hit_block") ? 1 : 0,
          ...(single && { "free-queue": "single" }),
        }
      : shared,
    blockTokens: integer(block_size, "block_size", 1),
    blocks: integer(num_blocks, "num_blocks", 1) - reserved,
  };
}

function matchLimit({ last_block_never_looked_up: block, last_token_never_hit: token }: Fields): "all" | "l-1" {
  const limits = [block, token].filter((limit) => limit !== undefined).map((limit) => isOn(limit, "a limit"));
  // In whole blocks both limits come to the same.
  return limits.length === 0 || limits.includes(true) ? "l-1" : "all";
}

/** Whether unhashed blocks queue up with hashed ones; or they go to the head. */
function queueOf(order: unknown): boolean {
  if (order === undefined) return false;
  if (typeof order === "string" && /unhashed[- ]to[- ]head/.test(order)) return false;
  if (typeof order === "string" && /tail|fifo|append/.test(order)) return true;
  throw new Unsupported(`free_order is ${shown(order)}`);
}

const freeOrder = (order: unknown) =>
  typeof order === "string" && /forward/.test(order) ? ("forward" as const) : ("reverse" as const);

function publishOf(publish: unknown): "allocation" | "step" {
  if (publish === undefined) return "allocation";
  if (typeof publish === "string" && /alloc/.test(publish)) return "allocation";
  if (typeof publish === "string" && /forward|comput|step/.test(publish)) return "step";
  return oneOf(publish, "publish", ["allocation", "step"]);
}

/** vLLM v0's prefix-caching allocator. */
export const vllmV0 = (blockTokens: number, blocks: number): CacheParts => ({
  index: hashTable,
  eviction: lruDeepest,
  allocator: blockQueue,
  rules: {
    "match-limit": "all",
    "full-hit": "stored-logits",
    publish: "allocation",
    duplicates: "share",
    "same-step": "recompute",
    "cache-generated": "true",
  },
  blockTokens,
  blocks,
});
