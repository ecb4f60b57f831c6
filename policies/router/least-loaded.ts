import type { RouterPlugin } from "../../core/plugins/index.ts";
import { leastLoadedOf } from "./load.ts";

/** Chooses the replica with the fewest requests, waiting and running; of equals the first. */
export const leastLoaded: RouterPlugin = {
  name: "least-loaded",
  about: "the replica with the fewest requests, waiting and running",
  source: "join the shortest queue (Winston, J. Appl. Prob. 1977); NGINX (least_conn)",
  create: () => ({ route: (_request, replicas) => leastLoadedOf(replicas) }),
};
