import { InputError } from "../../core/errors.ts";
import { EventLog, eventNames } from "../../core/log/events.ts";
import { BlockStates, Handovers } from "./block-states.ts";
import { problemOf } from "./check-event.ts";
import { Holders } from "./holders.ts";
import { Publications } from "./publications.ts";

export type EventColumns = ReturnType<EventLog["columns"]>;

export interface EventHistoryOptions {
  readonly blockTokens: number;
  /** The cache's; absent: unlimited, or not known. */
  readonly blocks?: number | undefined;
  /** Events between two states that are kept on the way, to begin with. */
  readonly distance?: number;
  /** For all of these. */
  readonly mostBytes?: number;
}

/** More blocks are no cache's, or would not fit into memory many times. */
const mostBlocks = 2 ** 22;

/**
 * A log, and how its blocks stand after any number of its events. States are kept on the way, in even distances that grow
 * with the log where memory asks for it; what is between is applied again. A log may grow.
 */
export class EventHistory {
  readonly log = new EventLog();
  readonly publications = new Publications();
  readonly blockTokens: number;
  readonly #mostBytes: number;
  readonly #handovers = new Handovers();
  readonly #holders = new Holders(this.publications, this.#handovers);
  /** At the log's end. */
  readonly #head = new BlockStates();
  /** Where it was asked last. */
  readonly #cursor = new BlockStates();
  readonly #scratch = new BlockStates();
  /** After `#distance` events, twice as many, and so on. */
  #kept: BlockStates[] = [];
  #keptBytes = 0;
  #distance: number;
  #lastNs = 0;

  constructor({ blockTokens, blocks = 0, distance = 1 << 14, mostBytes = 64 * 2 ** 20 }: EventHistoryOptions) {
    this.blockTokens = blockTokens;
    this.#distance = distance;
    this.#mostBytes = mostBytes;
    this.#head.grow(Math.min(blocks, mostBlocks));
  }

  get events(): number {
    return this.log.count;
  }

  /** The cache's blocks, or as many as the log has seen. */
  get blocks(): number {
    return this.#head.blocks;
  }

  /** Whether its times differ. */
  get hasClock(): boolean {
    return this.events > 0 && this.log.columns().timeNs[0] !== this.#lastNs;
  }

  /** Adds events to the log's end. @throws InputError at the first that cannot be; what came before it is in the log. */
  append(columns: EventColumns): void {
    const { kind, timeNs, request, block, key, value } = columns;
    const { log } = this;
    const head = this.#head;
    for (let i = 0; i < kind.length; i++) {
      if (block[i] >= head.blocks && block[i] < mostBlocks) head.grow(block[i] + 1);
      if (!(timeNs[i] >= this.#lastNs))
        throw this.#wrong(kind[i], `its time is ${timeNs[i]} ns, after ${this.#lastNs}`);
      const problem = problemOf(head, kind[i], block[i], key[i], value[i]);
      if (problem) throw this.#wrong(kind[i], problem);
      const at = log.count;
      this.#lastNs = timeNs[i];
      log.add(kind[i], timeNs[i], request[i], block[i], key[i], value[i]);
      this.#holders.apply(at, kind[i], timeNs[i], request[i], block[i], key[i], value[i], head);
      head.apply(at, kind[i], request[i], block[i], key[i], value[i], this.#handovers);
      if (log.count % this.#distance === 0) this.#keep();
    }
  }

  /** After the first `events` events; valid until the next call. */
  stateAt(events: number): BlockStates {
    const cursor = this.#cursor;
    const near = this.#kept[Math.floor(events / this.#distance) - 1];
    if (cursor.events > events || (near && near.events > cursor.events)) cursor.become(near ?? new BlockStates());
    cursor.grow(this.blocks);
    this.advance(cursor, events);
    return cursor;
  }

  /** The same to go on from; valid until the next call. */
  copyAt(events: number): BlockStates {
    this.#scratch.become(this.stateAt(events));
    return this.#scratch;
  }

  /** Moves a state on. */
  advance(state: BlockStates, events: number): void {
    state.advance(this.log, this.#handovers, events);
  }

  #keep(): void {
    const state = new BlockStates();
    state.become(this.#head);
    this.#kept.push(state);
    this.#keptBytes += state.bytes;
    while (this.#keptBytes > this.#mostBytes && this.#kept.length > 1) {
      this.#kept = this.#kept.filter((_, i) => i % 2 === 1);
      this.#keptBytes = this.#kept.reduce((sum, { bytes }) => sum + bytes, 0);
      this.#distance *= 2;
    }
  }

  #wrong(kind: number, problem: string): InputError {
    return new InputError(`event ${this.log.count} (${eventNames[kind] ?? kind}): ${problem}`);
  }
}
