import type { EvictionPlugin } from "../../core/plugins/index.ts";
import { BySession } from "./by-session.ts";

/**
 * LRU in two levels: entries that an open session references are evicted after all others (SGLang PR 29173,
 * `--enable-session-radix-cache`). A session references what its requests use until it is closed.
 *
 * Differences: SGLang registers the references when a request finishes, here they count from its admission, when its blocks are
 * referenced anyway; SGLang's references end with the eviction of a tree node, here content that is stored again is referenced
 * again; SGLang renews an entry of its sliding-window and Mamba layers when its last session is closed, here its recency stays.
 */
class SessionRefs extends BySession {
  protected override get initialScore(): number {
    return 1;
  }

  /** Pauses and expectations have no effect. */
  protected changed(): void {}
}

export const sessionRefs: EvictionPlugin = {
  name: "session-refs",
  about: "evicts the least recently used entry that no open session references",
  source: "SGLang (PR 29173)",
  onlyByName: true,
  columns: ["lastAccess"],
  create: (context) => new SessionRefs(context),
};
