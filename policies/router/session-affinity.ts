import type { ReplicaView, RequestView, RouterPlugin } from "../../core/plugins/index.ts";
import { leastLoadedOf, loadOf } from "./load.ts";

/**
 * Sticky sessions: the first request of a session goes to the replica with the fewest requests (of equals the one with the
 * fewest sessions), and all later ones to the same replica, regardless of load. A request without a session goes to the
 * least loaded replica. Session ids of different namespaces are different sessions; sessions do not expire.
 */
export const sessionAffinity: RouterPlugin = {
  name: "session-affinity",
  about: "all requests of a session go to one replica, the least loaded one at the session's first request",
  source: "sticky sessions; SGLang router (manual, min_load)",
  create({ replicaCount }) {
    const replicaOf = new Map<number, Map<number, number>>();
    const sessionCounts = new Uint32Array(replicaCount);
    return {
      route(request, replicas) {
        if (request.session === 0) return leastLoadedOf(replicas);
        const sessions = sessionsOf(replicaOf, request);
        const known = sessions.get(request.session);
        if (known !== undefined) return known;
        const replica = leastOf(replicas, sessionCounts);
        sessions.set(request.session, replica);
        sessionCounts[replica]++;
        return replica;
      },
    };
  },
};

function leastOf(replicas: readonly ReplicaView[], sessionCounts: Uint32Array): number {
  let least = 0;
  for (let i = 1; i < replicas.length; i++) {
    const difference = loadOf(replicas[i]) - loadOf(replicas[least]) || sessionCounts[i] - sessionCounts[least];
    if (difference < 0) least = i;
  }
  return least;
}

function sessionsOf(all: Map<number, Map<number, number>>, { namespace }: RequestView): Map<number, number> {
  let sessions = all.get(namespace);
  if (sessions === undefined) all.set(namespace, (sessions = new Map()));
  return sessions;
}
