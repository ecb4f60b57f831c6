import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { trtLlm } from "../../policies/presets/trt-llm.ts";
import { type CacheParts, likePreset } from "./driven-cache.ts";

/** TensorRT-LLM's block manager, with a queue of free blocks. */
export const trtLlmCache = (
  blockTokens: number,
  blocks: number,
  rules: Partial<Record<RuleName, RuleValue>>,
): CacheParts => likePreset(trtLlm, { blockTokens, blocks, rules });
