import type { RequestView, SchedulerPlugin, SequenceView } from "../../core/plugins/index.ts";
import {
  ContinuousBatching,
  continuousOptions,
  firstWaitingBy,
  type IsBefore,
  lastRunningBy,
  type Precedence,
} from "./continuous.ts";

/**
 * Waiting and running requests are in one order: by priority, then by age of the session (a request without one is a
 * session by itself), then by arrival. A request for which no block is available preempts later ones. So turns of old
 * conversations are served before new conversations.
 */
class SessionOrder implements Precedence {
  /** By namespace and session: id of the session's first request. */
  readonly #firstOf = new Map<number, Map<number, number>>();
  /** By waiting or running request: id of the first request of its session. */
  readonly #ageOf = new WeakMap<RequestView, number>();

  readonly first: Precedence["first"] = (context) => firstWaitingBy(context, this.mayReplace);
  readonly victimOf: Precedence["victimOf"] = (running) => lastRunningBy(running, this.mayReplace);

  readonly mayReplace: IsBefore = ({ request: a }, { request: b }) => {
    if (a.priority !== b.priority) return a.priority > b.priority;
    const first = this.#ageOf.get(a) ?? a.id;
    const second = this.#ageOf.get(b) ?? b.id;
    return first !== second ? first < second : a.id < b.id;
  };

  arrived({ request }: SequenceView): void {
    const { namespace, session, id } = request;
    if (session === 0) return;
    let sessions = this.#firstOf.get(namespace);
    if (sessions === undefined) this.#firstOf.set(namespace, (sessions = new Map()));
    const first = sessions.get(session) ?? id;
    sessions.set(session, first);
    this.#ageOf.set(request, first);
  }
}

export const sessionPriority: SchedulerPlugin = {
  name: "session-priority",
  about: "continuous batching, older sessions first; they preempt requests of later ones",
  source: "LMDeploy TurboMind (SequenceManager), as interpreted here",
  options: continuousOptions,
  create: ({ rules, options }) => new ContinuousBatching(new SessionOrder(), rules, options),
};
