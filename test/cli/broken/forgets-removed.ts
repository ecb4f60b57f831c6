import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** `remove` does nothing, so that `victim` returns removed entries. */
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
