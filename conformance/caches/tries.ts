import { blockQueue } from "../../policies/allocator/block-queue.ts";
import { lmdeploy } from "../../policies/presets/lmdeploy.ts";
import { type CacheParts, likePreset } from "./driven-cache.ts";

/** LMDeploy's PyTorch engine. */
export const lmdeployTrie = (blockTokens: number, blocks: number): CacheParts =>
  likePreset(lmdeploy, { blockTokens, blocks });

/** The demo that preceded it (issue 1407): whole prompts may be hits, output tokens are not published. */
export const demoTrie = (blockTokens: number, blocks: number): CacheParts =>
  likePreset(lmdeploy, {
    allocator: blockQueue,
    rules: { "match-limit": "all", "full-hit": "stored-logits", "cache-generated": "false" },
    blockTokens,
    blocks,
  });
