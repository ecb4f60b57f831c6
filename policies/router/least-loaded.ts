import type { RouterPlugin } from "../../core/plugins/index.ts";
import { leastLoadedOf } from "./load.ts";

/** The replica with the fewest requests, waiting or running; of equals the first. */
export const leastLoaded: RouterPlugin = {
  name: "least-loaded",
  about: "fewest requests, waiting or running",
  source: "join the shortest queue (Winston, J. Appl. Prob. 1977); NGINX (least_conn)",
  create: () => ({ route: (_request, replicas) => leastLoadedOf(replicas) }),
};
