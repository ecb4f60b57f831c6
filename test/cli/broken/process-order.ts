import type { EntryId, EvictionPlugin } from "../../../index.ts";

const buckets = 5;
/** As a hash table with a seed of its own has: another order in every process. */
const salt = process.pid % 1009;

/** First in the order in which a salted hash table would list its entries. */
const processOrder: EvictionPlugin = {
  name: "process-order",
  about: "",
  source: "",
  create() {
    const table = Array.from({ length: buckets }, () => new Set<EntryId>());
    const bucketOf = (entry: EntryId) => table[(entry * 31 + salt) % buckets];
    return {
      add: (entry) => void bucketOf(entry).add(entry),
      remove: (entry) => void bucketOf(entry).delete(entry),
      victim: () =>
        table
          .find((bucket) => bucket.size > 0)
          ?.values()
          .next().value,
    };
  },
};

export default processOrder;
