import { grown } from "../../core/grown.ts";
import type { SchedulerPlugin, SequenceView } from "../../core/plugins.ts";
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
  /** By session: its first request's place in the order of arrival, plus 1; 0 = none yet. */
  #firstOf = new Int32Array(64);

  readonly first: Precedence["first"] = (context) => firstWaitingBy(context, this.mayReplace);
  readonly victimOf: Precedence["victimOf"] = (running) => lastRunningBy(running, this.mayReplace);

  readonly mayReplace: IsBefore = ({ request: a }, { request: b }) => {
    if (a.priority !== b.priority) return a.priority > b.priority;
    const first = this.#age(a.session, a.id);
    const second = this.#age(b.session, b.id);
    return first !== second ? first < second : a.id < b.id;
  };

  arrived({ request: { session, id } }: SequenceView): void {
    if (session >= this.#firstOf.length) this.#firstOf = grown(this.#firstOf, 2 * session);
    if (session > 0 && this.#firstOf[session] === 0) this.#firstOf[session] = id + 1;
  }

  #age(session: number, id: number): number {
    return session === 0 ? id : this.#firstOf[session] - 1;
  }
}

export const sessionPriority: SchedulerPlugin = {
  name: "session-priority",
  about: "continuous batching, older sessions first; they send requests of later ones back to get their blocks",
  source: "LMDeploy TurboMind (SequenceManager), in the reading of this project",
  options: continuousOptions,
  create: ({ rules, options }) => new ContinuousBatching(new SessionOrder(), rules, options),
};
