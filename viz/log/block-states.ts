import { grown } from "../../core/grown.ts";
import { LoggedBlockStates, LoggedState } from "../../core/log/block-lives.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import { ignore, type LogEvent } from "../../core/log/events.ts";

/** Changes of a block's owner that its own events do not show: the owner ends while other requests reference the block. */
export class OwnerChanges {
  count = 0;
  event = new Int32Array(64);
  block = new Int32Array(64);
  owner = new Int32Array(64);

  add(event: number, block: number, owner: number): void {
    const at = this.count++;
    if (at === this.event.length) {
      this.event = grown(this.event, 2 * at);
      this.block = grown(this.block, 2 * at);
      this.owner = grown(this.owner, 2 * at);
    }
    this.event[at] = event;
    this.block[at] = block;
    this.owner[at] = owner;
  }
}

/**
 * The blocks after the first `events` of a log: their states, use and owners. A state is copied and advanced in place, so
 * that the next one costs only the events in between.
 */
export class BlockStates extends LoggedBlockStates {
  events = 0;
  steps = 0;
  evicted = 0;
  publications = 0;
  ownerChanges = 0;
  /** Of a cached block, the index of the publication that cached it. */
  publication = new Int32Array(0);
  /** The event at which the block was last used or released; −1: never. */
  usedAt = new Int32Array(0);
  /** Hits since the block was cached. */
  hits = new Int32Array(0);
  /** Of a block in use, the request that references it; of several the last one that did. −1: not in use. */
  owner = new Int32Array(0);
  /** Running requests in the order of their admission. */
  running = new Set<number>();

  get bytes(): number {
    return 17 * this.blocks + 16 * this.running.size + 200;
  }

  protected override resize(length: number): void {
    const before = this.life.length;
    super.resize(length);
    this.publication = grown(this.publication, length);
    this.usedAt = grown(this.usedAt, length).fill(-1, before);
    this.hits = grown(this.hits, length);
    this.owner = grown(this.owner, length).fill(-1, before);
  }

  /** Becomes equal to a state with as many blocks or fewer; its further blocks are free. */
  copyFrom(other: BlockStates): void {
    const { blocks } = other;
    this.grow(blocks);
    this.events = other.events;
    this.steps = other.steps;
    this.evicted = other.evicted;
    this.publications = other.publications;
    this.ownerChanges = other.ownerChanges;
    for (const name of ["publication", "life", "usedAt", "hits", "owner"] as const)
      this[name].set(other[name].subarray(0, blocks));
    this.life.fill(LoggedState.free, blocks);
    this.usedAt.fill(-1, blocks);
    this.owner.fill(-1, blocks);
    this.counts.set(other.counts);
    this.counts[LoggedState.free] += this.blocks - blocks;
    this.running = new Set(other.running);
  }

  /** Applies the log's events from `events` to `to`. */
  advance(log: EventLog, changes: OwnerChanges, to: number): void {
    for (const event of log.events(this.events, to)) this.applyWith(event, changes);
  }

  /** Applies the next event and the owner changes at it. */
  applyWith(event: LogEvent, changes: OwnerChanges): void {
    this.apply(event);
    if (changes.event[this.ownerChanges] === event.at) this.#changeOwners(event.at, changes);
  }

  override apply(event: LogEvent): void {
    super.apply(event);
    this.events = event.at + 1;
    const { block } = event;
    switch (event.name) {
      case "release":
        this.usedAt[block] = event.at;
        this.owner[block] = -1;
        break;
      case "hit":
        this.#use(event, block);
        this.hits[block]++;
        break;
      case "allocate":
      case "copy":
        this.#use(event, block);
        this.hits[block] = 0;
        break;
      case "publish":
        this.#use(event, block);
        this.publication[block] = this.publications++;
        this.hits[block] = 0;
        break;
      case "evict":
        this.evicted++;
        break;
      case "step":
        this.steps++;
        break;
      case "adopt":
      case "pin":
        this.#use(event, block);
        break;
      case "duplicate":
        this.#use(event, event.keptBlock);
        break;
      case "admit":
        this.running.add(event.request);
        break;
      case "finish":
      case "refuse":
      case "preempt":
        this.running.delete(event.request);
        break;
      default:
        ignore<"miss" | "drop" | "clear" | "unpin" | "swapOut" | "swapIn" | "send" | "receive" | "trim" | "signal">(
          event,
        );
    }
  }

  #use({ at, request }: LogEvent, block: number): void {
    this.usedAt[block] = at;
    this.owner[block] = request;
  }

  #changeOwners(at: number, { count, event, block, owner }: OwnerChanges): void {
    for (; this.ownerChanges < count && event[this.ownerChanges] === at; this.ownerChanges++)
      this.owner[block[this.ownerChanges]] = owner[this.ownerChanges];
  }
}
