import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** Any entry, by chance that nobody can repeat. */
const chance: EvictionPlugin = {
  name: "chance",
  about: "",
  source: "",
  create() {
    const place = new Map<EntryId, number>();
    return {
      add: (entry) => void place.set(entry, Math.random()),
      remove: (entry) => void place.delete(entry),
      victim() {
        let first: EntryId | undefined;
        for (const [entry, at] of place) if (first === undefined || at < place.get(first)!) first = entry;
        return first;
      },
    };
  },
};

export default chance;
