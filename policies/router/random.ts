import type { RouterPlugin } from "../../core/plugins/index.ts";

/** Any replica, each as likely as the others. */
export const random: RouterPlugin = {
  name: "random",
  about: "any replica, each as likely as the others",
  source: "baseline; SGLang router (random)",
  create: ({ random, replicaCount }) => ({ route: () => random.below(replicaCount) }),
};
