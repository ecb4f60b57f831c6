import { block } from "../allocator/block.ts";
import { lru } from "../eviction/lru.ts";
import { blockTrie } from "../index/block-trie.ts";
import type { Preset } from "../preset.ts";

/**
 * Blocks are evicted in the order of their last use, the end of a sequence first, and with a block what can be reached
 * through it alone. Its stateful mode, in which a session finds its own history and nothing else, by priority, is
 * `--rule share=session --eviction priority`.
 */
export const turbomind: Preset = {
  name: "turbomind",
  about: "block trie, any block by last use, what hangs below it goes too; parts of a block are copied",
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
