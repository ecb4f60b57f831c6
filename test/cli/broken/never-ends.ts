import type { EntryId, EvictionPlugin } from "../../../index.ts";

/** A second-chance policy that never clears the used bit, so that `victim` does not end. */
const neverEnds: EvictionPlugin = {
  name: "never-ends",
  about: "",
  source: "",
  create() {
    const queue: EntryId[] = [];
    const used = new Set<EntryId>();
    return {
      add: (entry) => void queue.push(entry),
      remove: (entry) => void queue.splice(queue.indexOf(entry), 1),
      hit: (entry) => void used.add(entry),
      victim() {
        while (queue.length > 0) {
          const entry = queue.shift()!;
          if (!used.has(entry)) {
            queue.unshift(entry);
            return entry;
          }
          queue.push(entry);
        }
        return undefined;
      },
    };
  },
};

export default neverEnds;
