import { block } from "../allocator/block.ts";
import { lru } from "../eviction/lru.ts";
import { promptTable } from "../index/prompt-table.ts";
import type { Preset } from "../preset.ts";

/**
 * A prompt matches only an identical prompt. A partial last block is shared with the entry and copied on write.
 * `--rule max-entries=N` limits the number of entries.
 */
export const roseinfer: Preset = {
  name: "roseinfer",
  about: "whole prompts with their last logits, LRU: a repeated prompt computes no token",
  source: "roseinfer (rosellm), first version",
  link: "https://github.com/chtho-like/rosellm",
  index: promptTable,
  eviction: lru,
  allocator: block,
  scheduler: "online",
  schedulerOptions: { "prompts-per-step": 1 },
  blockTokens: 64,
  rules: {
    "full-hit": "stored-logits",
    publish: "step",
  },
};
