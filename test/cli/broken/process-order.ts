import type { EntryId, EvictionPlugin } from "../../../index.ts";

const buckets = 5;
/** A salt that differs from process to process, as of a hash table with a random seed. */
const salt = process.pid % 1009;

/** Evicts the entry that is first in the order of a salted hash. */
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
