import type { Trace } from "./trace.ts";

/** Numbers sessions: equal session ids in different namespaces are different sessions. */
export class Sessions {
  readonly #known = new Map<number, Map<number, number>>();
  #count = 0;

  /** By request: the number of its session, from 1. A request without a session has a unique number. */
  of({ requestCount, optional }: Trace): Uint32Array {
    const { namespace, session } = optional;
    return Uint32Array.from({ length: requestCount }, (_, r) => {
      const number = session?.[r] ?? 0;
      if (number === 0) return ++this.#count;
      let sessions = this.#known.get(namespace?.[r] ?? 0);
      if (sessions === undefined) this.#known.set(namespace?.[r] ?? 0, (sessions = new Map()));
      let known = sessions.get(number);
      if (known === undefined) sessions.set(number, (known = ++this.#count));
      return known;
    });
  }
}
