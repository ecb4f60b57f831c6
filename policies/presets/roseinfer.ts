import { block } from "../allocator/block.ts";
import { lru } from "../eviction/lru.ts";
import { promptTable } from "../index/prompt-table.ts";
import type { Preset } from "../preset.ts";

/**
 * A prompt matches only an identical prompt. A partial last block is shared with the entry and copied on write. roseinfer's
 * `prefix_cache_max_entries` is 256, and its pool has the blocks of 256 sequences of the maximum context, in every layer:
 * `--rule max-entries=unlimited` removes the limit, and `--blocks` sets the pool. Not modelled: roseinfer cuts a prompt above the
 * maximum context to its last tokens, while the key of its entry is the whole text.
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
    "max-entries": 256,
  },
};
