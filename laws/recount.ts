import type { KvCache } from "../core/cache/kv-cache.ts";
import { BlockState, blockStateNames } from "../core/cache/pool.ts";
import { EventKind, type EventLog } from "../core/log/events.ts";
import { conservation } from "./book.ts";
import { require } from "./law.ts";

type Life = "free" | "private" | "cached";

/** What else is of interest, as it is read. */
export interface RecountListener {
  /** A block has a new owner, who may not rely on what is in it. */
  wiped(block: number): void;
  published(request: number, block: number, place: number): void;
  hit(block: number): void;
  /** Its last holder let a cached block go. */
  letGo(block: number): void;
  /** It is cached no longer. */
  gone(block: number): void;
}

/** A second set of books: every block's state and holders, kept from the event log alone. */
export class Recount {
  readonly #log: EventLog;
  #read = 0;
  readonly #life = new Map<number, Life>();
  readonly #held = new Map<number, Set<number>>();
  readonly #readers: RecountListener;

  constructor(log: EventLog, readers: RecountListener) {
    this.#log = log;
    this.#readers = readers;
  }

  /** Reads what was logged since the last time. */
  catchUp(): void {
    const { kind, request, block, key, value } = this.#log.columns();
    for (; this.#read < this.#log.count; this.#read++) {
      const at = this.#read;
      this.#apply(kind[at], request[at], block[at], key[at], value[at]);
    }
  }

  /** Fails where the pool differs from the books. */
  compare(cache: KvCache): void {
    const holders = new Map<number, number>();
    for (const blocks of this.#held.values())
      for (const block of blocks) holders.set(block, (holders.get(block) ?? 0) + 1);
    for (let block = 0; block < cache.pool.blockCount; block++) {
      const state = cache.pool.stateOf(block);
      const life: Life =
        state === BlockState.free
          ? "free"
          : state === BlockState.published || state === BlockState.idle
            ? "cached"
            : "private";
      const counted = this.#lifeOf(block);
      require(conservation, life === counted, () =>
        `block ${block} is ${blockStateNames[state]}, by the log ${counted}`);
      const holding = holders.get(block) ?? 0;
      require(conservation, cache.pool.refCountOf(block) === holding, () =>
        `block ${block} has ${cache.pool.refCountOf(block)} holders, by the log ${holding}`);
    }
  }

  #lifeOf(block: number): Life {
    return this.#life.get(block) ?? "free";
  }

  #heldBy(request: number): Set<number> {
    let blocks = this.#held.get(request);
    if (!blocks) this.#held.set(request, (blocks = new Set()));
    return blocks;
  }

  #isHeld(block: number): boolean {
    return [...this.#held.values()].some((blocks) => blocks.has(block));
  }

  #move(block: number, from: Life, to: Life): void {
    const life = this.#lifeOf(block);
    require(conservation, life === from, () =>
      `event ${this.#log.line(this.#read)}: block ${block} is ${life}, expected ${from}`);
    this.#life.set(block, to);
  }

  #apply(kind: number, request: number, block: number, key: number, value: number): void {
    switch (kind) {
      case EventKind.hit:
      case EventKind.adopt:
      case EventKind.pin:
        this.#move(block, "cached", "cached");
        this.#heldBy(request).add(block);
        if (kind === EventKind.hit) this.#readers.hit(block);
        return;
      case EventKind.allocate:
        this.#move(block, "free", "private");
        this.#heldBy(request).add(block);
        this.#readers.wiped(block);
        return;
      case EventKind.copy:
        this.#move(block, "free", "private");
        this.#heldBy(request).delete(key);
        this.#heldBy(request).add(block);
        this.#readers.wiped(block);
        return;
      case EventKind.publish:
        this.#move(block, "private", "cached");
        this.#readers.published(request, block, value);
        return;
      case EventKind.duplicate:
        this.#heldBy(request).delete(block);
        this.#heldBy(request).add(key);
        return;
      case EventKind.release:
        require(conservation, !this.#isHeld(block), () =>
          `event ${this.#log.line(this.#read)}: block ${block} is held`);
        this.#move(block, value === 1 ? "cached" : "private", value === 1 ? "cached" : "free");
        if (value === 1) this.#readers.letGo(block);
        return;
      case EventKind.evict:
        require(conservation, !this.#isHeld(block), () =>
          `event ${this.#log.line(this.#read)}: block ${block} is held`);
        this.#move(block, "cached", "free");
        this.#readers.gone(block);
        return;
      case EventKind.drop:
        this.#move(block, "cached", this.#isHeld(block) ? "private" : "free");
        this.#readers.gone(block);
        return;
      case EventKind.finish:
      case EventKind.preempt:
      case EventKind.refuse:
      case EventKind.unpin:
        this.#held.delete(request);
        return;
    }
  }
}
