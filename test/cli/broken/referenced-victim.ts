import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** `remove` ignores entries that became referenced; it removes evicted entries only. */
const referencedVictim: EvictionPlugin = {
  name: "referenced-victim",
  about: "",
  source: "",
  create() {
    const queue = new Set<EntryId>();
    return {
      add: (entry) => void queue.add(entry),
      remove(entry, why) {
        if (why !== "referenced") queue.delete(entry);
      },
      victim: () => queue.values().next().value,
    };
  },
};

export default referencedVictim;
