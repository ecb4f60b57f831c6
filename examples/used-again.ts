import { byScore, type EvictionPlugin } from "kvlab";

/**
 * Blocks that no second request has used go first, least recently used first; then the others. It keeps what is shared
 * (system prompts, long chats) and lets what was asked once go by, at the price of keeping what is shared no longer.
 *
 * An order, and nothing else: one score after the other, the smallest goes first.
 */
const usedAgain: EvictionPlugin = {
  name: "used-again",
  about: "used once goes before used again, then least recently used first",
  source: "example",
  ...byScore((entry, { accessCount }) => Math.min(accessCount[entry], 1), "lastAccess", "releaseOrder"),
};

export default usedAgain;
