import type { RouterPlugin } from "../../core/plugins/index.ts";

/** Chooses a replica at random, with equal probability: a baseline. */
export const random: RouterPlugin = {
  name: "random",
  about: "a replica at random, with equal probability",
  source: "baseline; SGLang router (random)",
  create: ({ random, replicaCount }) => ({ route: () => random.below(replicaCount) }),
};
