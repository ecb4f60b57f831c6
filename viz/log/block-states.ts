import { grown } from "../../core/grown.ts";
import { EventKind, type EventLog } from "../../core/log/events.ts";

/** What a block is; the numbers are those of `BlockMap` in viz/api.ts. */
export const BlockLife = { free: 0, private: 1, held: 2, idle: 3 } as const;

const { admit, hit, adopt, evict, allocate, copy, step, publish, duplicate, release } = EventKind;
const { finish, refuse, preempt, drop, pin, unpin } = EventKind;

/** Blocks of which somebody else becomes the owner, because the one who had them ends while others still hold them. */
export class Handovers {
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
 * Every block after the first `events` of a log: what it is, and what became of it. Copied and moved on in its place, so
 * that a moment costs what has changed since the last one.
 */
export class BlockStates {
  events = 0;
  steps = 0;
  evicted = 0;
  publications = 0;
  handovers = 0;
  /** Of a cached block, which of the log's publications cached it. */
  publication = new Int32Array(0);
  life = new Uint8Array(0);
  /** The event at which it was last used or let go; −1: never. */
  usedAt = new Int32Array(0);
  /** Since it was cached. */
  hits = new Int32Array(0);
  /** The request that has it; of several the last that took it. Only of blocks in use. */
  owner = new Int32Array(0);
  /** Blocks by `Life`; free are all others. */
  readonly counts = new Int32Array(4);
  /** In the order of their admission. */
  running = new Set<number>();

  /** In the cache; the columns may be longer. */
  blocks = 0;

  get bytes(): number {
    return 17 * this.blocks + 16 * this.running.size + 200;
  }

  isCached(block: number): boolean {
    return this.life[block] >= BlockLife.held;
  }

  /** From now on there are at least so many blocks. */
  grow(blocks: number): void {
    if (blocks <= this.blocks) return;
    const before = this.life.length;
    if (blocks > before) {
      const length = Math.max(blocks, 2 * before);
      this.publication = grown(this.publication, length);
      this.life = grown(this.life, length);
      this.usedAt = grown(this.usedAt, length).fill(-1, before);
      this.hits = grown(this.hits, length);
      this.owner = grown(this.owner, length).fill(-1, before);
    }
    this.counts[BlockLife.free] += blocks - this.blocks;
    this.blocks = blocks;
  }

  /** Becomes equal to a state of as many blocks or fewer; the others are free. */
  become(other: BlockStates): void {
    const { blocks } = other;
    this.grow(blocks);
    this.events = other.events;
    this.steps = other.steps;
    this.evicted = other.evicted;
    this.publications = other.publications;
    this.handovers = other.handovers;
    for (const name of ["publication", "life", "usedAt", "hits", "owner"] as const)
      this[name].set(other[name].subarray(0, blocks));
    this.life.fill(BlockLife.free, blocks);
    this.usedAt.fill(-1, blocks);
    this.owner.fill(-1, blocks);
    this.counts.set(other.counts);
    this.counts[BlockLife.free] += this.blocks - blocks;
    this.running = new Set(other.running);
  }

  /** Moves on to the first `to` events of the log. */
  advance(log: EventLog, handovers: Handovers, to: number): void {
    const { kind, request, block, key, value } = log.columns();
    for (let at = this.events; at < to; at++)
      this.apply(at, kind[at], request[at], block[at], key[at], value[at], handovers);
  }

  /** The next event, which is the `at`th of the log. */
  apply(
    at: number,
    kind: number,
    request: number,
    block: number,
    key: number,
    value: number,
    handovers: Handovers,
  ): void {
    this.events = at + 1;
    switch (kind) {
      case step:
        this.steps++;
        break;
      case hit:
        this.#hold(at, block, request);
        this.hits[block]++;
        break;
      case adopt:
      case pin:
        this.#hold(at, block, request);
        break;
      case duplicate:
        this.#hold(at, key, request);
        break;
      case copy:
        this.#own(at, block, request);
        this.#handOver(at, handovers);
        break;
      case allocate:
        this.#own(at, block, request);
        break;
      case publish:
        this.#hold(at, block, request);
        this.publication[block] = this.publications++;
        this.hits[block] = 0;
        break;
      case release:
        this.#become(block, value === 1 ? BlockLife.idle : BlockLife.free);
        this.usedAt[block] = at;
        this.owner[block] = -1;
        break;
      case evict:
        this.#become(block, BlockLife.free);
        this.evicted++;
        break;
      case drop:
        this.#become(block, this.life[block] === BlockLife.held ? BlockLife.private : BlockLife.free);
        break;
      case admit:
        this.running.add(request);
        break;
      case finish:
      case refuse:
      case preempt:
        this.running.delete(request);
        this.#handOver(at, handovers);
        break;
      case unpin:
        this.#handOver(at, handovers);
        break;
    }
  }

  #become(block: number, life: number): void {
    this.counts[this.life[block]]--;
    this.counts[life]++;
    this.life[block] = life;
  }

  #hold(at: number, block: number, request: number): void {
    this.#become(block, BlockLife.held);
    this.usedAt[block] = at;
    this.owner[block] = request;
  }

  #own(at: number, block: number, request: number): void {
    this.#become(block, BlockLife.private);
    this.usedAt[block] = at;
    this.owner[block] = request;
    this.hits[block] = 0;
  }

  #handOver(at: number, { count, event, block, owner }: Handovers): void {
    for (; this.handovers < count && event[this.handovers] === at; this.handovers++)
      this.owner[block[this.handovers]] = owner[this.handovers];
  }
}
