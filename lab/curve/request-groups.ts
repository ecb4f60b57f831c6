import { grown } from "../../core/grown.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { Sessions } from "../../core/trace/sessions.ts";
import type { Trace } from "../../core/trace/trace.ts";

/** Content of more than this share of the requests, such as a system prompt, does not make them a group. */
const commonShare = 0.01;

/**
 * Divides the requests of a trace into groups that share no content but the most common one: requests with the same first block
 * that is not common, and the requests of one session, are in one group. Two passes: `count` is called with all batches in order, then `add`.
 *
 * Memory: 8 bytes per content id, 4 per request.
 */
export class RequestGroups {
  /** By content id: requests that contain it. */
  #requestsOf = new Uint32Array(1024);
  #counted = 0;
  /** By content id: the group of the requests for which it is the first block that is not common, from 1. */
  #groupOf = new Uint32Array(0);
  readonly #sessions = new Sessions();
  readonly #groupOfSession = new Map<number, number>();
  /** By group: another one that it was joined to, or itself. */
  readonly #parent: number[] = [0];
  #requests = 0;
  #byRequest = new Uint32Array(1024);

  count({ keys, start, promptBlocks, distinct }: BlockColumns): void {
    const known = this.#requestsOf.length;
    if (distinct > known) this.#requestsOf = grown(this.#requestsOf, Math.max(distinct, 2 * known));
    for (let row = 0; row < promptBlocks.length; row++)
      for (let i = 0; i < promptBlocks[row]; i++) this.#requestsOf[keys[start[row] + i]]++;
    this.#counted += promptBlocks.length;
  }

  /** Distinct contents that are too common to make a group. */
  commonContents(): number {
    const mostRequests = commonShare * this.#counted;
    return this.#requestsOf.reduce((sum, requests) => sum + (requests > mostRequests ? 1 : 0), 0);
  }

  add(trace: Trace, { keys, start, promptBlocks }: BlockColumns): void {
    if (this.#groupOf.length === 0) this.#groupOf = new Uint32Array(this.#requestsOf.length);
    const mostRequests = commonShare * this.#counted;
    const sessions = trace.optional.session && this.#sessions.of(trace);
    for (let row = 0; row < trace.requestCount; row++) {
      const from = start[row];
      const end = from + promptBlocks[row];
      let at = from;
      while (at < end && this.#requestsOf[keys[at]] > mostRequests) at++;
      const group = at < end ? (this.#groupOf[keys[at]] ||= this.#newGroup()) : this.#newGroup();
      if (sessions) this.#join(sessions[row], group);
      if (this.#requests === this.#byRequest.length) this.#byRequest = grown(this.#byRequest, 2 * this.#requests);
      this.#byRequest[this.#requests++] = group;
    }
  }

  /** By request: the number of its group, from 0. */
  groups(): { readonly byRequest: Uint32Array; readonly count: number } {
    const numbers = new Map<number, number>();
    const byRequest = this.#byRequest.slice(0, this.#requests).map((group) => {
      const root = this.#rootOf(group);
      const number = numbers.get(root) ?? numbers.size;
      numbers.set(root, number);
      return number;
    });
    return { byRequest, count: numbers.size };
  }

  #newGroup(): number {
    return this.#parent.push(this.#parent.length) - 1;
  }

  #join(session: number, group: number): void {
    const other = this.#groupOfSession.get(session);
    if (other === undefined) this.#groupOfSession.set(session, group);
    else this.#parent[this.#rootOf(group)] = this.#rootOf(other);
  }

  #rootOf(group: number): number {
    const parent = this.#parent;
    let root = group;
    while (parent[root] !== root) root = parent[root] = parent[parent[root]];
    return root;
  }
}
