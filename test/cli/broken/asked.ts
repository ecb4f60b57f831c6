import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** `victim` returns another entry at each call. */
const asked: EvictionPlugin = {
  name: "asked",
  about: "",
  source: "",
  create() {
    const entries: EntryId[] = [];
    const place = new Map<EntryId, number>();
    let questions = 0;
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
      victim: () => entries[questions++ % entries.length],
    };
  },
};

export default asked;
