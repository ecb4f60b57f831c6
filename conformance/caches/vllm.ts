import { blockQueue } from "../../policies/allocator/block-queue.ts";
import { noIndex } from "../../policies/index/none.ts";
import { nanoVllm } from "../../policies/presets/nano-vllm.ts";
import { vllm } from "../../policies/presets/vllm.ts";
import { vllmV0 } from "../../policies/presets/vllm-v0.ts";
import { meanings } from "../phrases.ts";
import { type Fields, integer, shown, Unsupported } from "../values.ts";
import { isOn } from "./case-inputs.ts";
import { type CacheParts, likePreset } from "./driven-cache.ts";

/** vLLM v1's block pool, or nano-vllm's block manager if the case's settings publish blocks after the step only. */
export function vllmPool(config: Fields): CacheParts {
  const { block_size, caching, drop_last_hit_block, null_block, num_blocks } = config;
  const reserved = null_block === undefined || null_block === null || null_block === false ? 0 : 1;
  if (reserved > 0 && null_block !== true) integer(null_block, "null_block");
  const size = {
    blockTokens: integer(block_size, "block_size", 1),
    blocks: integer(num_blocks, "num_blocks", 1) - reserved,
  };
  const publish = publishOf(config["publish"]);
  const { single, within } = orderOf(config["free_order"], publish === "step");
  const shared = {
    "match-limit": matchLimit(config),
    "free-order": within,
    publish,
  } as const;
  const preset = publish === "step" ? nanoVllm : vllm;
  if (!isOn(caching, "caching", true)) {
    // Without caching there is one queue of free blocks.
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
  // In full blocks both limits are equal.
  return limits.length === 0 || limits.includes(true) ? "l-1" : "all";
}

const orders = {
  "unhashed first": /^(?:unhashed|uncached)(?: blocks)? (?:first|(?:to|at) (?:the )?(?:head|front))$/,
  "hashed last": /^(?:hashed|cached)(?: blocks)? (?:last|(?:to|at) (?:the )?(?:tail|end|back))$/,
  "unhashed last": /^(?:unhashed|uncached)(?: blocks)? (?:last|(?:to|at) (?:the )?(?:tail|end|back))$/,
  all: /^(?:fifo|append|(?:(?:append )?(?:all|each|every|freed)?(?: freed)?(?: blocks?)? ?)?(?:to|at) (?:the )?(?:tail|end|back)|tail)(?: queue)?$/,
  reverse: /^(?:in )?revers(?:e|ed)(?: order)?(?: (?:within|in|per)(?: an?| the| each)? request)?$/,
  forward: /^(?:forward|in order)(?: order)?(?: (?:within|in|per)(?: an?| the| each)? request)?$/,
} as const;

/**
 * `single`: all freed blocks are appended to one queue, otherwise unhashed ones are prepended; `within`: order of a request's
 * blocks.
 */
function orderOf(order: unknown, otherwise: boolean): { single: boolean; within: "reverse" | "forward" } {
  if (order === undefined) return { single: otherwise, within: "reverse" };
  const found = meanings(order, "free_order", orders);
  const first = found.has("unhashed first");
  const together = found.has("all") || found.has("unhashed last");
  if (first === together || (found.has("reverse") && found.has("forward")))
    throw new Unsupported(`free_order is ${shown(order)}, which states no order, or two orders`);
  return { single: together, within: found.has("forward") ? "forward" : "reverse" };
}

const publications = {
  allocation:
    /^(?:immediately|(?:(?:at|on|upon) )?(?:the )?(?:alloc|allocate|allocation)|when allocated|before (?:the )?(?:compute|computation|forward(?: pass)?|step))$/,
  step: /^(?:(?:after )?(?:the |each )?(?:forward(?: pass)?|step|compute|computation|computed)|(?:on|when|once) computed|after being computed)$/,
} as const;

function publishOf(publish: unknown): "allocation" | "step" {
  if (publish === undefined) return "allocation";
  const [when, ...more] = meanings(publish, "publish", publications);
  if (more.length > 0) throw new Unsupported(`publish is ${shown(publish)}, which states two publication times`);
  return when;
}

/** vLLM v0's prefix-caching allocator, which has all blocks of a prompt; its scheduler does not count the last one. */
export const vllmV0Cache = (blockTokens: number, blocks: number): CacheParts =>
  likePreset(vllmV0, { blockTokens, blocks, rules: { "full-hit": "rewrite-last", "match-limit": "all" } });
