import type { RouterPlugin } from "../../core/plugins/index.ts";

/** Chooses the replicas in turn, from the first. */
export const roundRobin: RouterPlugin = {
  name: "round-robin",
  about: "the replicas in turn",
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
