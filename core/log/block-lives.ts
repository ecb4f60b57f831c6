import { grown } from "../grown.ts";
import { ignore, type LogEvent, type WithoutBlock } from "./events.ts";

/** The states of a block. The dashboard's block map has the same codes. */
export const LoggedState = { free: 0, private: 1, referenced: 2, idle: 3 } as const;

/** The state of every block after the events of a log that were applied. Referenced and idle blocks are cached. */
export class LoggedBlockStates {
  /** Number of blocks; the columns may be longer. */
  blocks = 0;
  /** By block, a value of `LoggedState`. */
  life = new Uint8Array(0);
  /** Number of blocks by `LoggedState`. */
  readonly counts = new Int32Array(4);

  isCached(block: number): boolean {
    return this.life[block] >= LoggedState.referenced;
  }

  /** Grows to at least `blocks` blocks; new blocks are free. */
  grow(blocks: number): void {
    if (blocks <= this.blocks) return;
    if (blocks > this.life.length) this.resize(Math.max(blocks, 2 * this.life.length));
    this.counts[LoggedState.free] += blocks - this.blocks;
    this.blocks = blocks;
  }

  /** Resizes the columns to `length` elements. */
  protected resize(length: number): void {
    this.life = grown(this.life, length);
  }

  /** Applies the next event of the log; the block numbers in it must be below `blocks`. */
  apply(event: LogEvent): void {
    switch (event.name) {
      case "release":
        this.#change(event.block, event.keptCached ? LoggedState.idle : LoggedState.free);
        break;
      case "hit":
      case "publish":
      case "adopt":
      case "pin":
        this.#change(event.block, LoggedState.referenced);
        break;
      case "allocate":
      case "copy":
        this.#change(event.block, LoggedState.private);
        break;
      case "evict":
        this.#change(event.block, LoggedState.free);
        break;
      case "duplicate":
        this.#change(event.keptBlock, LoggedState.referenced);
        break;
      case "drop": {
        const isReferenced = this.life[event.block] === LoggedState.referenced;
        this.#change(event.block, isReferenced ? LoggedState.private : LoggedState.free);
        break;
      }
      default:
        ignore<WithoutBlock>(event);
    }
  }

  #change(block: number, life: number): void {
    this.counts[this.life[block]]--;
    this.counts[life]++;
    this.life[block] = life;
  }
}
