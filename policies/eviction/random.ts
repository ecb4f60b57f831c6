import type { EvictionPlugin, EvictionPolicy } from "../../core/plugins/index.ts";
import { chanceOf } from "../../core/random.ts";

/** Evicts an evictable entry at random, with equal probability: a baseline. */
export const random: EvictionPlugin = {
  name: "random",
  about: "evicts an entry at random, with equal probability (seeded)",
  source: "baseline",
  create({ columns, random: rng }): EvictionPolicy {
    const entries = new Int32Array(columns.key.length);
    const place = new Int32Array(columns.key.length);
    let count = 0;
    // The victim depends on the seed and on the number of changes to the set, so victim() has no side effects.
    const key = rng.below(2 ** 31);
    let changes = 0;
    return {
      add(entry) {
        place[entry] = count;
        entries[count++] = entry;
        changes++;
      },
      remove(entry) {
        const last = entries[--count];
        entries[place[entry]] = last;
        place[last] = place[entry];
        changes++;
      },
      victim() {
        return count === 0 ? undefined : entries[Math.floor(chanceOf(key, changes) * count)];
      },
    };
  },
};
