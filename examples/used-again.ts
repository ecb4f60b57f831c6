import { byScore, type EvictionPlugin } from "kvlab";

/**
 * Evicts blocks without a hit first, then blocks with hits, the least recently used one first in each group. Shared prefixes
 * (system prompts, long chats) stay cached at the expense of content that was used once.
 *
 * Scores are compared lexicographically; the entry with the smallest score tuple is evicted next.
 */
const usedAgain: EvictionPlugin = {
  name: "used-again",
  about: "blocks without a hit first, then least recently used",
  source: "example",
  ...byScore((entry, { accessCount }) => Math.min(accessCount[entry], 1), "lastAccess", "releaseOrder"),
};

export default usedAgain;
