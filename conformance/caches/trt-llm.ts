import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { trtLlm } from "../../policies/presets/trt-llm.ts";
import { type CacheParts, likePreset } from "./driven-cache.ts";

/** TensorRT-LLM's block manager, whose free blocks queue. */
export const trtLlmCache = (
  blockTokens: number,
  blocks: number,
  rules: Partial<Record<RuleName, RuleValue>>,
): CacheParts => likePreset(trtLlm, { blockTokens, blocks, rules });
