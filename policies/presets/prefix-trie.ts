import { block } from "../allocator/block.ts";
import { fifo } from "../eviction/fifo.ts";
import { prefixTrie } from "../index/prefix-pool.ts";
import type { Preset } from "../preset.ts";

/**
 * As `prefix-pool`, but prefixes share the blocks of their common beginning.
 */
export const prefixTriePreset: Preset = {
  name: "prefix-trie",
  about: "marked prefixes in a trie, FIFO; scheduled in groups of equal prefix",
  source: "vLLM PrefixTrie and PrefixGroup (added to PR 1669)",
  link: "https://github.com/vllm-project/vllm/pull/1669",
  index: prefixTrie,
  eviction: fifo,
  allocator: block,
  scheduler: "prefix-groups",
  blockTokens: 16,
  rules: {
    "full-hit": "rewrite-last",
    publish: "step",
  },
};
