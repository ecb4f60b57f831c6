import type { EntryId, EvictionPlugin, EvictionPolicy } from "../../core/plugins.ts";

/** Any evictable entry with equal chance: the baseline that a policy with memory should beat. */
export const random: EvictionPlugin = {
  name: "random",
  about: "any evictable entry, with equal chance (seeded)",
  source: "baseline",
  create({ columns, random: chance }): EvictionPolicy {
    const entries = new Int32Array(columns.key.length);
    const place = new Int32Array(columns.key.length);
    let count = 0;
    // Drawn when first asked for and kept until the set changes, so that asking twice gives the same.
    let drawn: EntryId | undefined;
    return {
      add(entry) {
        place[entry] = count;
        entries[count++] = entry;
        drawn = undefined;
      },
      remove(entry) {
        const last = entries[--count];
        entries[place[entry]] = last;
        place[last] = place[entry];
        drawn = undefined;
      },
      victim() {
        if (count === 0) return undefined;
        drawn ??= entries[chance.below(count)];
        return drawn;
      },
    };
  },
};
