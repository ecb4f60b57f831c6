import type { ReplicaView } from "../../core/plugins/index.ts";

/** Unfinished requests of a replica. */
export const loadOf = (replica: ReplicaView): number => replica.waitingCount + replica.runningCount;

/** The replica with the fewest requests; the first one on a tie. */
export function leastLoadedOf(replicas: readonly ReplicaView[]): number {
  let least = 0;
  let leastLoad = loadOf(replicas[0]);
  for (let i = 1; i < replicas.length; i++) {
    const load = loadOf(replicas[i]);
    if (load >= leastLoad) continue;
    least = i;
    leastLoad = load;
  }
  return least;
}
