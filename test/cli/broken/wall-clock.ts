import { byScore } from "../../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../../core/plugins/index.ts";

/** LRU by wall-clock time: the order of two entries of one millisecond differs from run to run. */
const wallClock: EvictionPlugin = {
  name: "wall-clock",
  about: "",
  source: "",
  create(context) {
    const usedAt = new Float64Array(context.columns.key.length);
    const order = byScore((entry) => usedAt[entry]).create(context);
    return {
      add(entry) {
        usedAt[entry] = Date.now();
        order.add(entry);
      },
      remove: (entry, why) => order.remove(entry, why),
      victim: (now) => order.victim(now),
    };
  },
};

export default wallClock;
