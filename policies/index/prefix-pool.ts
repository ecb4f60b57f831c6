import type { IndexPlugin, RequestView } from "../../core/plugins/index.ts";
import { blockTrie } from "./block-trie.ts";
import { wholePrefixes, wholePrefixIndex } from "./prompt-table.ts";

/** Number of full blocks of the marked prefix. */
const markedBlocks = ({ markedTokens, promptBlocks }: RequestView, blockTokens: number): number =>
  Math.min(promptBlocks, Math.floor(markedTokens / blockTokens));

/** Stores the marked prefix of each request as one entry; a prefix and its extension share no blocks. */
export const prefixPool: IndexPlugin = {
  name: "prefix-pool",
  about: "one entry per marked prefix, in full blocks, available after the step that computes it; no sharing of blocks",
  source: "vLLM PrefixPool (PR 1669)",
  ...wholePrefixes,
  unit: "marked",
  create: (context, blockCount) => wholePrefixIndex(context, blockCount, markedBlocks, false),
};

/** Stores marked prefixes in a trie: prefixes share the blocks of their common beginning, and the longest match is used. */
export const prefixTrie: IndexPlugin = {
  name: "prefix-trie",
  about: "marked prefixes in a trie: common beginnings share blocks, the longest match is used",
  source: "vLLM PrefixTrie (added to PR 1669)",
  unit: "marked-paths",
  defaults: { ...blockTrie.defaults, publish: "step" },
  supports: {
    ...wholePrefixes.supports,
    "max-entries": ["unlimited"],
    "match-limit": "any",
    "drop-blocks": "any",
    victims: "any",
    "free-queue": "any",
  },
  create(context, blockCount) {
    const trie = blockTrie.create(context, blockCount);
    const { blockTokens } = context;
    return Object.assign(trie, { stores: (request: RequestView) => markedBlocks(request, blockTokens) });
  },
};
