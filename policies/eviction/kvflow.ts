import type { EvictionPlugin, RequestView, SessionView, Signal } from "../../core/plugins/index.ts";
import { BySession } from "./by-session.ts";

/**
 * Evicts the entry whose next use is the most steps of its workflow away (KVFlow, arXiv 2507.07400): each agent is a session, its
 * client states after every step in how many steps each agent runs next, and an entry that several agents share has the smallest of
 * their numbers. Entries without a number are evicted first; of equals the least recently used.
 *
 * As in KVFlow, only the fixed part of an agent's prompt has the number, if the request marks it; without a mark, all of its prompt and
 * output. Differences: a number is valid until the client states another one or none, it is not counted down; nothing is
 * prefetched from host memory.
 */
class KvFlow extends BySession {
  protected override scoredBlocks(request: RequestView): number {
    const { markedTokens, promptBlocks } = request;
    return markedTokens === 0 ? promptBlocks : Math.floor(markedTokens / this.context.blockTokens);
  }

  protected changed({ name }: Signal, session: SessionView): void {
    // Minus infinity is no score.
    if (name === "expect") this.setScore(session, -session.nextUseSteps);
  }
}

export const kvflow: EvictionPlugin = {
  name: "kvflow",
  about: "evicts the entry whose next use is the most steps away; entries without a stated next use first",
  source: "KVFlow (arXiv 2507.07400)",
  onlyByName: true,
  columns: ["lastAccess"],
  create: (context) => new KvFlow(context),
};
