import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** Correct, but `victim` scans all entries. */
const linear: EvictionPlugin = {
  name: "linear",
  about: "",
  source: "",
  columns: ["lastAccess", "depth"],
  create({ columns }) {
    const { lastAccess, depth } = columns;
    const entries = new Set<EntryId>();
    const before = (a: EntryId, b: EntryId) =>
      lastAccess[a] < lastAccess[b] || (lastAccess[a] === lastAccess[b] && depth[a] > depth[b]);
    return {
      add: (entry) => void entries.add(entry),
      remove: (entry) => void entries.delete(entry),
      victim() {
        let first: EntryId | undefined;
        for (const entry of entries) if (first === undefined || before(entry, first)) first = entry;
        return first;
      },
    };
  },
};

export default linear;
