import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** Keeps its last two entries, whatever is asked of it. */
const givesUp: EvictionPlugin = {
  name: "gives-up",
  about: "",
  source: "",
  create() {
    const entries = new Set<EntryId>();
    return {
      add: (entry) => void entries.add(entry),
      remove: (entry) => void entries.delete(entry),
      victim: () => (entries.size > 2 ? entries.values().next().value : undefined),
    };
  },
};

export default givesUp;
