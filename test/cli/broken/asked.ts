import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** Names another entry each time that it is asked. */
const asked: EvictionPlugin = {
  name: "asked",
  about: "",
  source: "",
  create() {
    const entries = new Set<EntryId>();
    let questions = 0;
    return {
      add: (entry) => void entries.add(entry),
      remove: (entry) => void entries.delete(entry),
      victim() {
        let at = questions++ % entries.size;
        for (const entry of entries) if (at-- === 0) return entry;
        return undefined;
      },
    };
  },
};

export default asked;
