import type { RequestView, RouterPlugin } from "../../core/plugins.ts";
import { leastLoadedOf } from "./load.ts";

/**
 * A session stays with the replica of its first request, which was the one with the fewest requests then, however many
 * it has now; so goes every request without a session. Sessions of different namespaces are different ones, and none is
 * ever forgotten.
 */
export const sessionAffinity: RouterPlugin = {
  name: "session-affinity",
  about: "a session stays with the replica of its first request, the least loaded one then",
  source: "sticky sessions; SGLang router (manual, min_load)",
  create() {
    const replicaOf = new Map<number, Map<number, number>>();
    return {
      route(request, replicas) {
        if (request.session === 0) return leastLoadedOf(replicas);
        const sessions = sessionsOf(replicaOf, request);
        let replica = sessions.get(request.session);
        if (replica === undefined) sessions.set(request.session, (replica = leastLoadedOf(replicas)));
        return replica;
      },
    };
  },
};

function sessionsOf(all: Map<number, Map<number, number>>, { namespace }: RequestView): Map<number, number> {
  let sessions = all.get(namespace);
  if (sessions === undefined) all.set(namespace, (sessions = new Map()));
  return sessions;
}
