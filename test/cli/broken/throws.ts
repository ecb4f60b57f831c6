import { byScore, type EvictionPlugin } from "../../../index.ts";

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
