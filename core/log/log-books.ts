import { grown } from "../grown.ts";
import { EventKind, type EventLog } from "./events.ts";

const { hit, adopt, evict, allocate, copy, publish, duplicate, release, drop, pin } = EventKind;

/** What a block is to whoever reads the log: free, one request's own, or cached and held by a request or by nobody. */
const Life = { free: 0, private: 1, held: 2, idle: 3 } as const;

/** Blocks by what they are; in an unlimited cache nothing is free. */
export interface BlockCounts {
  readonly private: number;
  readonly cachedHeld: number;
  readonly cachedIdle: number;
}

/**
 * A second set of books over a cache, kept from the event log alone, whatever the index: what each block is, what it
 * holds, and who has used it. For replays that serve one request at a time, where a block has at most one holder.
 */
export class LogBooks {
  #life = new Uint8Array(1024);
  #content = new Float64Array(1024);
  #cachedBy = new Int32Array(1024);
  #usedBy = new Int32Array(1024);
  readonly #count = [0, 0, 0, 0];

  counts(): BlockCounts {
    const [, own, cachedHeld, cachedIdle] = this.#count;
    return { private: own, cachedHeld, cachedIdle };
  }

  /** Whose request made a cached block findable; undefined if it is not cached. */
  cachedBy(block: number): number | undefined {
    return this.#isCached(block) ? this.#cachedBy[block] : undefined;
  }

  /** The last request that used a cached block; undefined if it is not cached. */
  usedBy(block: number): number | undefined {
    return this.#isCached(block) ? this.#usedBy[block] : undefined;
  }

  /** Contents that are cached. */
  contents(): Set<number> {
    const contents = new Set<number>();
    for (let block = 0; block < this.#life.length; block++)
      if (this.#isCached(block)) contents.add(this.#content[block]);
    return contents;
  }

  /** Events `[from, to)` have happened. */
  read(log: EventLog, from: number, to: number): void {
    const { kind, request, block, key, value } = log.columns();
    for (let at = from; at < to; at++) this.#apply(kind[at], request[at], block[at], key[at], value[at]);
  }

  #apply(kind: number, request: number, block: number, key: number, value: number): void {
    if (block >= this.#life.length) this.#grow(block + 1);
    switch (kind) {
      case hit:
      case adopt:
      case pin:
        this.#become(block, Life.held);
        this.#usedBy[block] = request;
        break;
      case allocate:
      case copy:
        this.#become(block, Life.private);
        break;
      case publish:
        this.#become(block, Life.held);
        this.#content[block] = key;
        this.#cachedBy[block] = this.#usedBy[block] = request;
        break;
      case duplicate:
        this.#become(key, Life.held);
        this.#usedBy[key] = request;
        break;
      case release:
        this.#become(block, value === 1 ? Life.idle : Life.free);
        break;
      case evict:
        this.#become(block, Life.free);
        break;
      case drop:
        this.#become(block, this.#life[block] === Life.held ? Life.private : Life.free);
        break;
    }
  }

  #isCached(block: number): boolean {
    return this.#life[block] >= Life.held;
  }

  #become(block: number, life: number): void {
    this.#count[this.#life[block]]--;
    this.#count[life]++;
    this.#life[block] = life;
  }

  #grow(blocks: number): void {
    const length = Math.max(blocks, 2 * this.#life.length);
    this.#life = grown(this.#life, length);
    this.#content = grown(this.#content, length);
    this.#cachedBy = grown(this.#cachedBy, length);
    this.#usedBy = grown(this.#usedBy, length);
  }
}
