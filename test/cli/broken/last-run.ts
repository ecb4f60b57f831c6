import { byScore } from "../../../core/plugins/by-score.ts";
import type { EntryId, EvictionPlugin } from "../../../core/plugins/index.ts";

/** How often each entry was added; module state, shared by all caches. */
const uses = new Map<EntryId, number>();

/** LFU whose counts persist over all caches of the process. */
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
