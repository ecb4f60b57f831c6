import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** LRU by the time of day: two entries of one millisecond change places from run to run. */
const wallClock: EvictionPlugin = {
  name: "wall-clock",
  about: "",
  source: "",
  create() {
    const usedAt = new Map<EntryId, number>();
    return {
      add: (entry) => void usedAt.set(entry, Date.now()),
      remove: (entry) => void usedAt.delete(entry),
      victim() {
        let oldest: EntryId | undefined;
        for (const [entry, at] of usedAt) if (oldest === undefined || at < usedAt.get(oldest)!) oldest = entry;
        return oldest;
      },
    };
  },
};

export default wallClock;
