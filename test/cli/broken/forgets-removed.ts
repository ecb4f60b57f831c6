import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** Does nothing when an entry is taken away, and so names entries that are gone. */
const forgetsRemoved: EvictionPlugin = {
  name: "forgets-removed",
  about: "",
  source: "",
  create() {
    const queue: EntryId[] = [];
    return {
      add: (entry) => void queue.push(entry),
      remove() {},
      victim: () => queue[0],
    };
  },
};

export default forgetsRemoved;
