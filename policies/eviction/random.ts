import type { EvictionPlugin, EvictionPolicy } from "../../core/plugins/index.ts";
import { chanceOf } from "../../core/random.ts";

/** Any evictable entry with equal chance: the baseline that a policy with memory should beat. */
export const random: EvictionPlugin = {
  name: "random",
  about: "any evictable entry, with equal chance (seeded)",
  source: "baseline",
  create({ columns, random: chance }): EvictionPolicy {
    const entries = new Int32Array(columns.key.length);
    const place = new Int32Array(columns.key.length);
    let count = 0;
    // The draw is a function of the seed and of how often the set has changed: whoever looks, and when, changes nothing.
    const key = chance.below(2 ** 31);
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
