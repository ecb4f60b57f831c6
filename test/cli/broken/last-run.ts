import { byScore, type EntryId, type EvictionPlugin } from "../../../index.ts";

/** How often an entry was let go, kept from one cache to the next. */
const uses = new Map<EntryId, number>();

/** Least often used, in all caches that there ever were. */
const lastRun: EvictionPlugin = {
  name: "last-run",
  about: "",
  source: "",
  columns: ["releaseOrder"],
  create(context) {
    const order = byScore((entry) => uses.get(entry) ?? 0, "releaseOrder").create(context);
    return {
      add(entry) {
        uses.set(entry, (uses.get(entry) ?? 0) + 1);
        order.add(entry);
      },
      remove: (entry, why) => order.remove(entry, why),
      victim: (now) => order.victim(now),
    };
  },
};

export default lastRun;
