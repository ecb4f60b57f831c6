import type { Request, Sequence } from "../cache/request.ts";
import type { Nanos } from "../trace/trace.ts";
import type { ObservedReplica, StepObserver } from "./observers.ts";
import type { StepLoad } from "./step-load.ts";

interface Times {
  readonly arrivalNs: Nanos;
  admittedNs?: Nanos;
  firstTokenNs?: Nanos;
}

/**
 * Writes a run as Chrome trace events, for Perfetto (ui.perfetto.dev): a process per replica with its steps, queue and blocks, and
 * a span per request from its arrival to its end. It is written during the run; only requests that have not ended are in memory.
 *
 * Source: Trace Event Format (Google, 2016), times in microseconds.
 */
export class Timeline implements StepObserver {
  readonly #write: (text: string) => void;
  readonly #open = new Map<number, Times>();
  readonly #named = new Set<number>();
  #isFirst = true;

  /** `write` is called with successive pieces of the file. */
  constructor(write: (text: string) => void) {
    this.#write = write;
    write('{"displayTimeUnit":"ms","traceEvents":[\n');
  }

  /** Writes the end of the file. */
  close(): void {
    this.#write("\n]}\n");
  }

  arrived(request: Request, _replica: number, nowNs: Nanos): void {
    this.#open.set(request.id, { arrivalNs: nowNs });
  }

  admitted({ request }: Sequence, _replica: number, nowNs: Nanos): void {
    const times = this.#open.get(request.id);
    if (times) times.admittedNs ??= nowNs;
  }

  firstToken({ request }: Sequence, _replica: number, nowNs: Nanos): void {
    const times = this.#open.get(request.id);
    if (times) times.firstTokenNs ??= nowNs;
  }

  ended(sequence: Sequence, replica: number, nowNs: Nanos, refused?: string): void {
    const { request, preemptions, cachedTokens, generatedTokens } = sequence;
    const { id, inputTokens } = request;
    const outputTokens = refused === undefined ? generatedTokens : request.outputTokens;
    const { arrivalNs, admittedNs, firstTokenNs } = this.#open.get(id) ?? { arrivalNs: nowNs };
    this.#open.delete(id);
    const args = { inputTokens, outputTokens, cachedTokens, preemptions, ...(refused !== undefined && { refused }) };
    const span = { cat: "request", id, pid: replica, tid: 0 };
    const begin = (name: string, atNs: Nanos, args = {}) =>
      this.#event({ name, ...span, ph: "b", ts: micros(atNs), args });
    const end = (name: string, atNs: Nanos) => this.#event({ name, ...span, ph: "e", ts: micros(atNs) });
    const phase = (name: string, fromNs: Nanos, toNs: Nanos) => {
      begin(name, fromNs);
      end(name, toNs);
    };
    // Events at equal times are ordered by their position in the file: spans are written as they are nested.
    begin(`request ${id}`, arrivalNs, args);
    phase("queued", arrivalNs, admittedNs ?? nowNs);
    if (admittedNs !== undefined) phase("prefill", admittedNs, firstTokenNs ?? nowNs);
    if (firstTokenNs !== undefined) phase("decode", firstTokenNs, nowNs);
    end(`request ${id}`, nowNs);
  }

  steps(
    { number: pid, replica, cache }: ObservedReplica,
    load: Readonly<StepLoad>,
    startNs: Nanos,
    count: number,
    endsNs: Float64Array,
  ): void {
    this.#name(pid);
    const { prefillTokens, decodeTokens, sequences } = load;
    const name = prefillTokens === 0 ? "decode" : decodeTokens === 0 ? "prefill" : "mixed";
    let from = startNs;
    for (let i = 0; i < count; i++) {
      const dur = micros(endsNs[i] - from);
      this.#event({
        name,
        ph: "X",
        pid,
        tid: 0,
        ts: micros(from),
        dur,
        args: { sequences, prefillTokens, decodeTokens },
      });
      from = endsNs[i];
    }
    const requests = { running: replica.runningCount, waiting: replica.waitingCount };
    this.#event({ name: "requests", ph: "C", pid, ts: micros(startNs), args: requests });
    const cached = cache.index.blockCount;
    const idle = cache.index.evictableBlocks;
    const used = cache.pool.blockCount - cache.freeBlocks - cached;
    this.#event({
      name: "blocks",
      ph: "C",
      pid,
      ts: micros(startNs),
      args: { private: used, held: cached - idle, idle },
    });
  }

  #name(pid: number): void {
    if (this.#named.has(pid)) return;
    this.#named.add(pid);
    this.#event({ name: "process_name", ph: "M", pid, args: { name: `replica ${pid}` } });
    this.#event({ name: "thread_name", ph: "M", pid, tid: 0, args: { name: "steps" } });
  }

  #event(event: object): void {
    this.#write(`${this.#isFirst ? "" : ",\n"}${JSON.stringify(event)}`);
    this.#isFirst = false;
  }
}

const micros = (ns: Nanos) => ns / 1000;
