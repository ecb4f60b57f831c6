import type { EventColumns, EventLog } from "../../core/log/event-log.ts";
import { BatchStore } from "../batch-store.ts";

/** The event log of a replica: the events that were moved here while it ran, then those that are still in the log. */
export class LogStore {
  readonly #mostEvents: number;
  readonly #moved = new BatchStore<EventColumns>();
  #rest: EventLog | undefined;

  /** `mostEvents`: fewer events stay in the log. */
  constructor(mostEvents = 1 << 16) {
    this.#mostEvents = mostEvents;
  }

  /** Moves the events of the log, if there are many. */
  add(log: EventLog): void {
    if (log.count < this.#mostEvents) return;
    const { kind, timeNs, request, block, key, value } = log.columns();
    this.#moved.add(
      {
        kind: kind.slice(),
        timeNs: timeNs.slice(),
        request: request.slice(),
        block: block.slice(),
        key: key.slice(),
        value: value.slice(),
      },
      log.count * bytesPerEvent,
    );
    log.keepLast(0);
  }

  /** The same with the events that are in the log when the run has ended. */
  withRest(log: EventLog): this {
    this.#rest = log;
    return this;
  }

  /** All events in order, in pieces. */
  *pieces(): Generator<EventColumns> {
    yield* this.#moved.read();
    if (this.#rest) yield this.#rest.columns();
  }

  close(): void {
    this.#moved.close();
  }
}

/** The event logs of all replicas of a run. */
export class LogStores {
  readonly #logs: LogStore[] = [];
  readonly #movesEvents: boolean;

  /** `movesEvents`: no other reader of the logs needs earlier events. */
  constructor({ movesEvents = true } = {}) {
    this.#movesEvents = movesEvents;
  }

  /** Moves the events of a replica's log, if there are many. */
  add(replica: number, log: EventLog): void {
    if (this.#movesEvents) this.#of(replica).add(log);
  }

  /** The complete logs of all replicas, when the run has ended. */
  complete(logs: readonly EventLog[]): LogStore[] {
    return logs.map((log, replica) => this.#of(replica).withRest(log));
  }

  close(): void {
    for (const log of this.#logs) log?.close();
  }

  #of(replica: number): LogStore {
    return (this.#logs[replica] ??= new LogStore());
  }
}

const bytesPerEvent = 1 + 8 + 4 + 4 + 8 + 4;
