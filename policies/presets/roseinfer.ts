import { block } from "../allocator/block.ts";
import { lru } from "../eviction/lru.ts";
import { promptTable } from "../index/prompt-table.ts";
import type { Preset } from "../preset.ts";

/**
 * A prompt finds itself and nothing else. The block that its end shares with the entry is copied when somebody adds to it
 * while others read it. `--rule max-entries=N` is its limit.
 */
export const roseinfer: Preset = {
  name: "roseinfer",
  about: "whole prompts by last use, with their last logits: the same prompt again computes nothing",
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
