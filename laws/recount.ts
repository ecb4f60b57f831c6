import type { KvCache } from "../core/cache/kv-cache.ts";
import { BlockState, blockStateNames } from "../core/cache/pool.ts";
import type { EventLog } from "../core/log/event-log.ts";
import { EventKind } from "../core/log/events.ts";
import { conservation } from "./contract-laws.ts";
import { require } from "./law.ts";

type RecountState = "free" | "private" | "cached";

/** Callbacks for events of interest while the log is read. */
export interface RecountListener {
  /** The block was allocated; its old contents are undefined. */
  allocated(block: number): void;
  published(request: number, block: number, place: number): void;
  hit(block: number): void;
  /** The reference count of a cached block dropped to 0. */
  released(block: number): void;
  /** The block is no longer cached. */
  removed(block: number): void;
  /** The request has finished or was refused. */
  ended(request: number): void;
}

/** Recounts the state and the reference count of every block from the event log alone, independently of the cache. */
export class Recount {
  readonly #log: EventLog;
  #read = 0;
  readonly #states = new Map<number, RecountState>();
  readonly #referenced = new Map<number, Set<number>>();
  readonly #listener: RecountListener;

  constructor(log: EventLog, listener: RecountListener) {
    this.#log = log;
    this.#listener = listener;
  }

  /** Reads the events that were logged since the last call. */
  catchUp(): void {
    const { kind, request, block, key, value } = this.#log.columns();
    for (; this.#read < this.#log.count; this.#read++) {
      const at = this.#read;
      this.#apply(kind[at], request[at], block[at], key[at], value[at]);
    }
  }

  /** Throws if the pool differs from the recount. */
  compare(cache: KvCache): void {
    const holders = new Map<number, number>();
    for (const blocks of this.#referenced.values())
      for (const block of blocks) holders.set(block, (holders.get(block) ?? 0) + 1);
    for (let block = 0; block < cache.pool.blockCount; block++) {
      const state = cache.pool.stateOf(block);
      const recorded: RecountState =
        state === BlockState.free
          ? "free"
          : state === BlockState.published || state === BlockState.idle
            ? "cached"
            : "private";
      const counted = this.#stateOf(block);
      require(conservation, recorded === counted, () =>
        `block ${block} is ${blockStateNames[state]}, by the log ${counted}`);
      const count = holders.get(block) ?? 0;
      require(conservation, cache.pool.refCountOf(block) === count, () =>
        `block ${block} has reference count ${cache.pool.refCountOf(block)}, by the log ${count}`);
    }
  }

  #stateOf(block: number): RecountState {
    return this.#states.get(block) ?? "free";
  }

  #blocksOf(request: number): Set<number> {
    let blocks = this.#referenced.get(request);
    if (!blocks) this.#referenced.set(request, (blocks = new Set()));
    return blocks;
  }

  #isReferenced(block: number): boolean {
    return [...this.#referenced.values()].some((blocks) => blocks.has(block));
  }

  #move(block: number, from: RecountState, to: RecountState): void {
    const recorded = this.#stateOf(block);
    require(conservation, recorded === from, () =>
      `event ${this.#log.line(this.#read)}: block ${block} is ${recorded}, expected ${from}`);
    this.#states.set(block, to);
  }

  #apply(kind: number, request: number, block: number, key: number, value: number): void {
    switch (kind) {
      case EventKind.hit:
      case EventKind.adopt:
      case EventKind.pin:
        this.#move(block, "cached", "cached");
        this.#blocksOf(request).add(block);
        if (kind === EventKind.hit) this.#listener.hit(block);
        return;
      case EventKind.allocate:
        this.#move(block, "free", "private");
        this.#blocksOf(request).add(block);
        this.#listener.allocated(block);
        return;
      case EventKind.copy:
        this.#move(block, "free", "private");
        this.#blocksOf(request).delete(key);
        this.#blocksOf(request).add(block);
        this.#listener.allocated(block);
        return;
      case EventKind.publish:
        this.#move(block, "private", "cached");
        this.#listener.published(request, block, value);
        return;
      case EventKind.duplicate:
        this.#blocksOf(request).delete(block);
        this.#blocksOf(request).add(key);
        return;
      case EventKind.trim:
        this.#blocksOf(request).delete(key);
        return;
      case EventKind.release:
        require(conservation, !this.#isReferenced(block), () =>
          `event ${this.#log.line(this.#read)}: block ${block} is referenced`);
        this.#move(block, value === 1 ? "cached" : "private", value === 1 ? "cached" : "free");
        if (value === 1) this.#listener.released(block);
        return;
      case EventKind.evict:
        require(conservation, !this.#isReferenced(block), () =>
          `event ${this.#log.line(this.#read)}: block ${block} is referenced`);
        this.#move(block, "cached", "free");
        this.#listener.removed(block);
        return;
      case EventKind.drop:
        this.#move(block, "cached", this.#isReferenced(block) ? "private" : "free");
        this.#listener.removed(block);
        return;
      case EventKind.finish:
      case EventKind.refuse:
        this.#referenced.delete(request);
        this.#listener.ended(request);
        return;
      case EventKind.preempt:
      case EventKind.unpin:
        this.#referenced.delete(request);
        return;
    }
  }
}
