import type { ReplicaView, RequestView, RouterPlugin } from "../../core/plugins/index.ts";
import { leastLoadedOf, loadOf } from "./load.ts";

/**
 * A session stays with the replica of its first request, which was the one with the fewest requests then (of equals the
 * one with the fewest sessions), however many it has now. A request without a session goes to the least loaded one.
 * Sessions of different namespaces are different ones, and none is ever forgotten.
 */
export const sessionAffinity: RouterPlugin = {
  name: "session-affinity",
  about: "a session stays with the replica of its first request, the least loaded one then",
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
