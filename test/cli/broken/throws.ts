import { byScore } from "../../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../../core/plugins/index.ts";

/** LRU that throws at a hit. */
const throws: EvictionPlugin = {
  name: "throws",
  about: "",
  source: "",
  columns: ["lastAccess"],
  create(context) {
    const order = byScore("lastAccess").create(context);
    return {
      add: (entry) => order.add(entry),
      remove: (entry, why) => order.remove(entry, why),
      victim: (now) => order.victim(now),
      hit(entry) {
        throw new Error(`no place for a hit of ${entry}`);
      },
    };
  },
};

export default throws;
