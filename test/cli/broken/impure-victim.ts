import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** `victim` returns another entry at each call. */
const impureVictim: EvictionPlugin = {
  name: "impure-victim",
  about: "",
  source: "",
  create() {
    const entries: EntryId[] = [];
    const place = new Map<EntryId, number>();
    let calls = 0;
    return {
      add(entry) {
        place.set(entry, entries.length);
        entries.push(entry);
      },
      remove(entry) {
        const last = entries.pop()!;
        if (last === entry) return;
        entries[place.get(entry)!] = last;
        place.set(last, place.get(entry)!);
      },
      victim: () => entries[calls++ % entries.length],
    };
  },
};

export default impureVictim;
