import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** How often an entry was used, kept from one cache to the next. */
const uses = new Map<EntryId, number>();

/** Least often used, in all caches that there ever were. */
const lastRun: EvictionPlugin = {
  name: "last-run",
  about: "",
  source: "",
  create() {
    const entries = new Set<EntryId>();
    return {
      add(entry) {
        uses.set(entry, (uses.get(entry) ?? 0) + 1);
        entries.add(entry);
      },
      remove: (entry) => void entries.delete(entry),
      victim() {
        let least: EntryId | undefined;
        for (const entry of entries) if (least === undefined || uses.get(entry)! < uses.get(least)!) least = entry;
        return least;
      },
    };
  },
};

export default lastRun;
