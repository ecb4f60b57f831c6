import { TraceError } from "../core/errors.ts";
import { grown } from "../core/grown.ts";
import type { TraceRow } from "../core/trace/trace.ts";

/** A request of a session, with the content ids of its whole blocks as ranges: first id, count, first id, count, … */
export interface WekaRequest {
  /** Seconds from the start of its session. */
  readonly arrivalS: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly thinkS: number | undefined;
  /** Whether it ended with a tool call; undefined if the file does not state it. */
  readonly callsTool: boolean | undefined;
  readonly ranges: readonly number[];
}

/** Category of the requests of sub-agents; those of the agents themselves have none. */
const subAgentCategory = 1;
/** A session with a larger id has its ids in a map instead of an array. */
const mostArrayIds = 1 << 22;
const noKey = 0xffff_ffff;

interface Session {
  /** File and line. */
  readonly at: string;
  largestId: number;
  requests: number;
}

/**
 * The requests of all sessions, which are merged by arrival. Content ids are local to a session: equal ids of two sessions
 * get different keys.
 */
export class WekaSessions {
  readonly #sessions: Session[] = [];
  #conversations = 0;
  #conversation = 0;
  #count = 0;
  #arrivalNs = new Float64Array(1024);
  #thinkNs = new Float64Array(1024);
  #inputTokens = new Uint32Array(1024);
  #outputTokens = new Uint32Array(1024);
  #session = new Uint32Array(1024);
  #conversationOf = new Uint32Array(1024);
  #isSubAgent = new Uint8Array(1024);
  #callsTool = new Uint8Array(1024);
  #statesTools = false;
  /** Offsets into `#ranges`. */
  #rangeStart = new Float64Array(1025);
  #ranges = new Uint32Array(4096);

  /** Number of sessions so far. */
  get count(): number {
    return this.#sessions.length;
  }

  /** The next session, at this file and line. */
  begin(at: string): void {
    this.#sessions.push({ at, largestId: 0, requests: 0 });
    this.#conversation = ++this.#conversations;
  }

  /** Further requests with `isSubAgent` are those of a new sub-agent. */
  beginSubAgent(): void {
    this.#conversations++;
  }

  /** Adds a request of the session, or of its latest sub-agent. */
  add(request: WekaRequest, isSubAgent: boolean): void {
    const { arrivalS, inputTokens, outputTokens, thinkS, callsTool, ranges } = request;
    const r = this.#count++;
    if (r === this.#arrivalNs.length) this.#grow(r * 2);
    const session = this.#sessions[this.#sessions.length - 1];
    session.requests++;
    this.#arrivalNs[r] = Math.round(arrivalS * 1e9);
    this.#thinkNs[r] = Math.round((thinkS ?? 0) * 1e9);
    this.#inputTokens[r] = inputTokens;
    this.#outputTokens[r] = outputTokens;
    this.#session[r] = this.#sessions.length - 1;
    this.#conversationOf[r] = isSubAgent ? this.#conversations : this.#conversation;
    this.#isSubAgent[r] = isSubAgent ? 1 : 0;
    this.#callsTool[r] = callsTool ? 1 : 0;
    if (callsTool !== undefined) this.#statesTools = true;
    const start = this.#rangeStart[r];
    const end = start + ranges.length;
    if (end > this.#ranges.length) this.#ranges = grown(this.#ranges, Math.max(end, this.#ranges.length * 2));
    this.#ranges.set(ranges, start);
    this.#rangeStart[r + 1] = end;
    for (let i = 0; i < ranges.length; i += 2)
      session.largestId = Math.max(session.largestId, ranges[i] + ranges[i + 1] - 1);
  }

  /**
   * All requests by arrival, ties in file order. A session starts at the time that `startNs` returns for it. The row is
   * reused.
   */
  *rows(startNs: () => number): Generator<TraceRow> {
    const starts = this.#sessions.map(startNs);
    const arrival = this.#arrivalNs.subarray(0, this.#count);
    for (let r = 0; r < this.#count; r++) arrival[r] += starts[this.#session[r]];
    const order = Uint32Array.from({ length: this.#count }, (_, r) => r).sort(
      (a, b) => arrival[a] - arrival[b] || a - b,
    );
    const tables: (IdTable | undefined)[] = [];
    const keys = new SessionKeys();
    const lastRow = new Int32Array(this.#conversations + 1).fill(-1);
    const row: TraceRow = { arrivalNs: 0, inputTokens: 0, outputTokens: 0, keys: [] };
    const firstNs = this.#count === 0 ? 0 : arrival[order[0]];
    for (let at = 0; at < order.length; at++) {
      const r = order[at];
      const session = this.#sessions[this.#session[r]];
      const table = (tables[this.#session[r]] ??= idTable(session.largestId));
      const conversation = this.#conversationOf[r];
      row.arrivalNs = arrival[r] - firstNs;
      row.inputTokens = this.#inputTokens[r];
      row.outputTokens = this.#outputTokens[r];
      row.session = conversation;
      row.parent = lastRow[conversation];
      row.thinkNs = this.#thinkNs[r];
      row.category = this.#isSubAgent[r] * subAgentCategory;
      // Without a name: all tools are number 1.
      if (this.#statesTools) row.tool = this.#callsTool[r];
      row.keys = keys.of(this.#ranges, this.#rangeStart[r], this.#rangeStart[r + 1], table, session.at);
      lastRow[conversation] = at;
      if (--session.requests === 0) tables[this.#session[r]] = undefined;
      yield row;
    }
  }

  #grow(length: number): void {
    this.#arrivalNs = grown(this.#arrivalNs, length);
    this.#thinkNs = grown(this.#thinkNs, length);
    this.#inputTokens = grown(this.#inputTokens, length);
    this.#outputTokens = grown(this.#outputTokens, length);
    this.#session = grown(this.#session, length);
    this.#conversationOf = grown(this.#conversationOf, length);
    this.#isSubAgent = grown(this.#isSubAgent, length);
    this.#callsTool = grown(this.#callsTool, length);
    this.#rangeStart = grown(this.#rangeStart, length + 1);
  }
}

/** Keys of a session by its ids. */
type IdTable = Uint32Array | SparseTable;

const idTable = (largestId: number): IdTable =>
  largestId < mostArrayIds ? new Uint32Array(largestId + 1).fill(noKey) : new SparseTable();

class SparseTable {
  readonly #keys = new Map<number, number>();

  get(id: number): number {
    return this.#keys.get(id) ?? noKey;
  }

  set(id: number, key: number): void {
    this.#keys.set(id, key);
  }
}

/** Numbers the ids of all sessions from 0, by first appearance, and checks that an id always follows the same id. */
class SessionKeys {
  #count = 0;
  /** By key: the key before it. */
  #parents = new Uint32Array(1 << 16);
  #keys = new Uint32Array(1 << 12);

  /** The keys of `ranges[from .. to)`; valid until the next call. */
  of(ranges: Uint32Array, from: number, to: number, table: IdTable, at: string): Uint32Array {
    let length = 0;
    for (let i = from; i < to; i += 2) length += ranges[i + 1];
    if (length > this.#keys.length) this.#keys = new Uint32Array(length * 2);
    if (this.#count + length > this.#parents.length)
      this.#parents = grown(this.#parents, Math.max(this.#count + length, this.#parents.length * 2));
    const keys = this.#keys;
    let n = 0;
    for (let i = from; i < to; i += 2) {
      const end = ranges[i] + ranges[i + 1];
      n =
        table instanceof Uint32Array
          ? this.#range(table, ranges[i], end, n, at)
          : this.#sparseRange(table, ranges[i], end, n, at);
    }
    return keys.subarray(0, n);
  }

  #range(table: Uint32Array, first: number, end: number, n: number, at: string): number {
    const keys = this.#keys;
    const parents = this.#parents;
    let above = n === 0 ? noKey : keys[n - 1];
    for (let id = first; id < end; id++) {
      let key = table[id];
      if (key === noKey) {
        key = this.#count++;
        table[id] = key;
        parents[key] = above;
      } else if (parents[key] !== above) throw otherPredecessor(id, at);
      keys[n++] = above = key;
    }
    return n;
  }

  #sparseRange(table: SparseTable, first: number, end: number, n: number, at: string): number {
    const keys = this.#keys;
    const parents = this.#parents;
    let above = n === 0 ? noKey : keys[n - 1];
    for (let id = first; id < end; id++) {
      let key = table.get(id);
      if (key === noKey) {
        key = this.#count++;
        table.set(id, key);
        parents[key] = above;
      } else if (parents[key] !== above) throw otherPredecessor(id, at);
      keys[n++] = above = key;
    }
    return n;
  }
}

const otherPredecessor = (id: number, at: string) =>
  new TraceError(
    `${at}: the id ${id} follows another id than before, expected the same: an id identifies a block and all blocks before it`,
  );
