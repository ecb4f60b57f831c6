import type { IndexPlugin, RequestView } from "../../core/plugins/index.ts";
import { blockTrie } from "./block-trie.ts";
import { wholePrefixes, wholePrefixIndex } from "./prompt-table.ts";

/** Whole blocks of the prefix that the user has marked. */
const markedBlocks = ({ markedTokens, promptBlocks }: RequestView, blockTokens: number): number =>
  Math.min(promptBlocks, Math.floor(markedTokens / blockTokens));

/** Prefixes that users mark, each by itself: one that begins another shares nothing with it. */
export const prefixPool: IndexPlugin = {
  name: "prefix-pool",
  about: "prefixes that requests mark, cut to whole blocks, usable after the step that computes them; each by itself",
  source: "vLLM PrefixPool (PR 1669)",
  ...wholePrefixes,
  unit: "marked",
  create: (context, blockCount) => wholePrefixIndex(context, blockCount, markedBlocks, false),
};

/** The same, but prefixes that begin alike share blocks, and the longest one that a request's begins with is used. */
export const prefixTrie: IndexPlugin = {
  name: "prefix-trie",
  about: "prefixes that requests mark, in a trie: those that begin alike share blocks, the longest is used",
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
