import { block } from "../allocator/block.ts";
import { lru } from "../eviction/lru.ts";
import { blockTrie } from "../index/block-trie.ts";
import type { Preset } from "../preset.ts";

/**
 * Blocks are evicted in LRU order, the end of a sequence first; a block is evicted with its descendants. The stateful mode,
 * in which a session matches only its own history and blocks are evicted by priority, is
 * `--rule share=session --eviction priority`.
 */
export const turbomind: Preset = {
  name: "turbomind",
  about:
    "block trie; LRU evicts any unreferenced block together with its descendants; partially matching blocks are copied",
  source: "LMDeploy, TurboMind engine (PR 1450, 3835, 4717)",
  link: "https://github.com/InternLM/lmdeploy/pull/1450",
  index: blockTrie,
  eviction: lru,
  allocator: block,
  scheduler: "session-priority",
  blockTokens: 64,
  rules: {
    "match-limit": "block-before-l",
    publish: "step",
    "cache-generated": "true",
    victims: "any",
    partial: "copy",
  },
};
