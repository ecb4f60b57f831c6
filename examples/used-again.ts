import { byScore, type EvictionPlugin, type EvictionPolicy } from "kvlab";

/**
 * Blocks that no second request has used go first, least recently used first; then the others. It keeps what is shared
 * (system prompts, long chats) and lets what was asked once go by, at the price of keeping what is shared no longer.
 */
const usedAgain: EvictionPlugin = {
  name: "used-again",
  about: "used once goes before used again, then least recently used first",
  source: "example",
  create(context): EvictionPolicy {
    const { accessCount } = context.columns;
    const used = (block: number) => Math.min(accessCount[block], 1);
    return byScore(used, "lastAccess", "releaseOrder")(context);
  },
};

export default usedAgain;
