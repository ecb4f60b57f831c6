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
 * All requests, waiting or running, are in one order: the more important first, then those of the older session (a request
 * without one is a session of its own), then who arrived first. A request that finds no room sends later ones back until
 * it has some. So a conversation that has begun goes on before new ones do.
 */
class SessionOrder implements Precedence {
  /** By namespace and session: number of its first request. */
  readonly #firstOf = new Map<number, Map<number, number>>();
  /** By request, as long as it is here: number of its session's first one. */
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
  about: "continuous batching, older sessions first; they send requests of later ones back to get their blocks",
  source: "LMDeploy TurboMind (SequenceManager), in the reading of this project",
  options: continuousOptions,
  create: ({ rules, options }) => new ContinuousBatching(new SessionOrder(), rules, options),
};
