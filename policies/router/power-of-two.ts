import type { RouterPlugin } from "../../core/plugins/index.ts";
import { loadOf } from "./load.ts";

/** Samples two replicas at random and chooses the one with fewer requests; of equals the one sampled first. */
export const powerOfTwo: RouterPlugin = {
  name: "power-of-two",
  about: "of two replicas sampled at random the one with fewer requests",
  source: "Mitzenmacher, IEEE TPDS 2001; SGLang router (power_of_two)",
  create: ({ random, replicaCount }) => ({
    route(_request, replicas) {
      if (replicaCount === 1) return 0;
      const first = random.below(replicaCount);
      const other = random.below(replicaCount - 1);
      const second = other < first ? other : other + 1;
      return loadOf(replicas[first]) <= loadOf(replicas[second]) ? first : second;
    },
  }),
};
