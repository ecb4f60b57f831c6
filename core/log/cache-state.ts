import { grown } from "../grown.ts";
import { LoggedBlockStates, LoggedState } from "./block-lives.ts";
import type { EventLog } from "./event-log.ts";
import type { BlockUsers } from "./event-text.ts";
import { ignore, type LogEvent, type WithoutBlock } from "./events.ts";

/** Numbers of blocks by state. How many are free is not defined for an unlimited cache. */
export interface BlockCounts {
  readonly private: number;
  readonly cachedHeld: number;
  readonly cachedIdle: number;
}

/**
 * The state of a cache, read from its event log alone and for any index: the state of each block, its content and the
 * requests that used it.
 */
export class CacheState extends LoggedBlockStates {
  #content = new Float64Array(0);
  #cachedBy = new Int32Array(0);
  #usedBy = new Int32Array(0);

  blockCounts(): BlockCounts {
    const [, own, cachedReferenced, cachedIdle] = this.counts;
    return { private: own, cachedHeld: cachedReferenced, cachedIdle };
  }

  get cachedBlocks(): number {
    return this.counts[LoggedState.referenced] + this.counts[LoggedState.idle];
  }

  /** The content id of a cached block; undefined if the block is not cached. */
  contentOf(block: number): number | undefined {
    return this.isCached(block) ? this.#content[block] : undefined;
  }

  /** The requests that published and last used a cached block; undefined if the block is not cached. */
  usersOf(block: number): BlockUsers | undefined {
    return this.isCached(block) ? { cachedBy: this.#cachedBy[block], usedBy: this.#usedBy[block] } : undefined;
  }

  /** The content ids of all cached blocks. */
  contents(): Set<number> {
    const contents = new Set<number>();
    for (let block = 0; block < this.blocks; block++) if (this.isCached(block)) contents.add(this.#content[block]);
    return contents;
  }

  /** Applies events `[from, to)` of the log; they must directly follow the events applied so far. */
  read(log: EventLog, from: number, to: number): void {
    for (const event of log.events(from, to)) this.apply(event);
  }

  override apply(event: LogEvent): void {
    this.grow(event.block + 1);
    super.apply(event);
    switch (event.name) {
      case "publish":
        this.#content[event.block] = event.content;
        this.#cachedBy[event.block] = this.#usedBy[event.block] = event.request;
        break;
      case "hit":
      case "adopt":
      case "pin":
        this.#usedBy[event.block] = event.request;
        break;
      case "duplicate":
        this.#usedBy[event.keptBlock] = event.request;
        break;
      default:
        ignore<WithoutBlock | "allocate" | "copy" | "release" | "evict" | "drop">(event);
    }
  }

  protected override resize(length: number): void {
    super.resize(length);
    this.#content = grown(this.#content, length);
    this.#cachedBy = grown(this.#cachedBy, length);
    this.#usedBy = grown(this.#usedBy, length);
  }
}
