import type { RouterPlugin } from "../../core/plugins/index.ts";

/** One replica after the other, from the first. */
export const roundRobin: RouterPlugin = {
  name: "round-robin",
  about: "one replica after the other",
  source: "baseline; SGLang router (round_robin)",
  create({ replicaCount }) {
    let next = 0;
    return {
      route() {
        const replica = next;
        next = (next + 1) % replicaCount;
        return replica;
      },
    };
  },
};
