import { blockQueue } from "../../policies/allocator/block-queue.ts";
import { noIndex } from "../../policies/index/none.ts";
import { nanoVllm } from "../../policies/presets/nano-vllm.ts";
import { vllm } from "../../policies/presets/vllm.ts";
import { vllmV0 } from "../../policies/presets/vllm-v0.ts";
import { type Fields, integer, oneOf, shown, Unsupported } from "../values.ts";
import { isOn } from "./asked.ts";
import { type CacheParts, likePreset } from "./driven-cache.ts";

/** vLLM v1's block pool, or nano-vllm's block manager if blocks are found after the step only, by the settings of a case. */
export function vllmPool(config: Fields): CacheParts {
  const { block_size, caching, drop_last_hit_block, null_block, num_blocks } = config;
  const reserved = null_block === undefined || null_block === null || null_block === false ? 0 : 1;
  const size = {
    blockTokens: integer(block_size, "block_size", 1),
    blocks: integer(num_blocks, "num_blocks", 1) - reserved,
  };
  const publish = publishOf(config["publish"]);
  const single = queueOf(config["free_order"], publish === "step");
  const shared = {
    "match-limit": matchLimit(config),
    "free-order": freeOrder(config["free_order"]),
    publish,
  } as const;
  const preset = publish === "step" ? nanoVllm : vllm;
  if (!isOn(caching, "caching", true)) {
    // Without caching all that is free queues.
    return { ...likePreset(preset, { ...size, allocator: blockQueue }), index: noIndex, rules: shared };
  }
  return likePreset(preset, {
    ...size,
    ...(single && { allocator: blockQueue }),
    rules: {
      ...shared,
      "drop-blocks": isOn(drop_last_hit_block, "drop_last_hit_block") ? 1 : 0,
      "free-queue": single ? "single" : "free-first",
    },
  });
}

function matchLimit({ last_block_never_looked_up: block, last_token_never_hit: token }: Fields): "all" | "l-1" {
  const limits = [block, token].filter((limit) => limit !== undefined).map((limit) => isOn(limit, "a limit"));
  // In whole blocks both limits come to the same.
  return limits.length === 0 || limits.includes(true) ? "l-1" : "all";
}

/** Whether unhashed blocks queue up with hashed ones; or they go to the head. */
function queueOf(order: unknown, otherwise: boolean): boolean {
  if (order === undefined) return otherwise;
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

/** vLLM v0's prefix-caching allocator; who finds all of a chain has nothing to compute in it. */
export const vllmV0Cache = (blockTokens: number, blocks: number): CacheParts =>
  likePreset(vllmV0, { blockTokens, blocks, rules: { "full-hit": "stored-logits" } });
