import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** Returns no victim while two or fewer entries are evictable. */
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
