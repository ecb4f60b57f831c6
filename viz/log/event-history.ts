import { InputError } from "../../core/errors.ts";
import { type EventColumns, EventLog } from "../../core/log/event-log.ts";
import { EventRecord, problemInRow } from "../../core/log/event-record.ts";
import { eventNames } from "../../core/log/events.ts";
import { BlockStates, OwnerChanges } from "./block-states.ts";
import { problemOf } from "./check-event.ts";
import { Publications } from "./publications.ts";
import { References } from "./references.ts";

export interface EventHistoryOptions {
  readonly blockTokens: number;
  /** Number of blocks of the cache; absent: unlimited or unknown. */
  readonly blocks?: number | undefined;
  /** Initial number of events between two stored states. */
  readonly distance?: number;
  /** Limit of all stored states. */
  readonly mostBytes?: number;
}

/** No cache has more blocks; states of more would not fit into memory many times. */
const mostBlocks = 2 ** 22;

/**
 * A log and the states of its blocks after any number of events. States are stored at even distances, which double when
 * memory requires it; a state in between is computed from the stored one before it. A log may grow.
 */
export class EventHistory {
  readonly log = new EventLog();
  readonly publications = new Publications(this.log);
  readonly blockTokens: number;
  readonly #mostBytes: number;
  readonly #ownerChanges = new OwnerChanges();
  readonly #references = new References(this.publications, this.#ownerChanges);
  readonly #record = new EventRecord();
  /** The states at the log's end. */
  readonly #head = new BlockStates();
  /** The states that `stateAt` returned last. */
  readonly #cursor = new BlockStates();
  readonly #scratch = new BlockStates();
  /** The states after `#distance` events, twice as many, and so on. */
  #stored: BlockStates[] = [];
  #storedBytes = 0;
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

  /** The cache's number of blocks, or the number that the log has seen. */
  get blocks(): number {
    return this.#head.blocks;
  }

  /** Whether events have different times. */
  get hasClock(): boolean {
    return this.events > 0 && this.log.columns().timeNs[0] !== this.#lastNs;
  }

  /** Appends events. @throws InputError at the first impossible event; the events before it are in the log. */
  append({ kind, timeNs, request, block, key, value }: EventColumns): void {
    const { log } = this;
    const head = this.#head;
    for (let i = 0; i < kind.length; i++) {
      if (block[i] >= head.blocks && block[i] < mostBlocks) head.grow(block[i] + 1);
      if (!(timeNs[i] >= this.#lastNs))
        throw this.#impossible(kind[i], `its time is ${timeNs[i]} ns, after ${this.#lastNs}`);
      const unreadable = problemInRow(kind[i], key[i], value[i]);
      if (unreadable) throw this.#impossible(kind[i], unreadable);
      const event = this.#record.decode(log.count, kind[i], timeNs[i], request[i], block[i], key[i], value[i]);
      const problem = problemOf(head, event);
      if (problem) throw this.#impossible(kind[i], problem);
      this.#lastNs = timeNs[i];
      log.add(kind[i], timeNs[i], request[i], block[i], key[i], value[i]);
      this.#references.apply(event, head);
      head.applyWith(event, this.#ownerChanges);
      if (log.count % this.#distance === 0) this.#store();
    }
  }

  /** The states after the first `events` events; valid until the next call. */
  stateAt(events: number): BlockStates {
    const cursor = this.#cursor;
    const stored = this.#stored[Math.floor(events / this.#distance) - 1];
    if (cursor.events > events || (stored && stored.events > cursor.events))
      cursor.copyFrom(stored ?? new BlockStates());
    cursor.grow(this.blocks);
    this.advance(cursor, events);
    return cursor;
  }

  /** A copy of these states that the caller may advance; valid until the next call. */
  copyAt(events: number): BlockStates {
    this.#scratch.copyFrom(this.stateAt(events));
    return this.#scratch;
  }

  /** Advances a state to the first `events` events. */
  advance(state: BlockStates, events: number): void {
    state.advance(this.log, this.#ownerChanges, events);
  }

  #store(): void {
    const state = new BlockStates();
    state.copyFrom(this.#head);
    this.#stored.push(state);
    this.#storedBytes += state.bytes;
    while (this.#storedBytes > this.#mostBytes && this.#stored.length > 1) {
      this.#stored = this.#stored.filter((_, i) => i % 2 === 1);
      this.#storedBytes = this.#stored.reduce((sum, { bytes }) => sum + bytes, 0);
      this.#distance *= 2;
    }
  }

  #impossible(kind: number, problem: string): InputError {
    return new InputError(`event ${this.log.count} (${eventNames[kind] ?? kind}): ${problem}`);
  }
}
