import { grown } from "../grown.ts";
import { Miss, missReasons } from "../log/miss-reasons.ts";
import type { Request } from "./request.ts";

const never = 0;
const computed = 1;
const computing = 2;

/** Number of missed blocks of a prompt by miss reason; all but the prompt's last block are full. */
export class MissedBlocks {
  readonly count = new Int32Array(missReasons.length);
  /** Miss reason of the prompt's last block. */
  last = 0;

  /** Changes the miss reason of one block, and of the last one if no other block has the reason `from`. */
  move(from: number, to: number): void {
    this.count[from]--;
    this.count[to]++;
    if (this.last === from && this.count[from] === 0) this.last = to;
  }
}

/**
 * The contents that have been computed before, to distinguish evicted content from cold misses; one byte per content. Used
 * where the index itself does not distinguish them.
 */
export class ContentHistory {
  #seen: Uint8Array = new Uint8Array(1 << 10);
  #seenPlain: Uint8Array | undefined;

  expectKeys(distinct: number): void {
    this.#seen = grownTo(this.#seen, distinct);
  }

  /** Blocks `[from, to)` of the request have been allocated and will be computed. */
  computing({ keys, keyStart, blocks }: Request, from: number, to: number): void {
    for (let at = keyStart + from; at < keyStart + to; at++) this.#seen[keys[at]] = computing;
    const { plainKeys } = blocks;
    if (plainKeys === undefined) return;
    for (let at = keyStart + from; at < keyStart + to; at++) {
      this.#seenPlain = grownTo(this.#seenPlain ?? new Uint8Array(1 << 10), plainKeys[at] + 1);
      this.#seenPlain[plainKeys[at]] = computed;
    }
  }

  /** Blocks `[from, to)` of the request have been computed. */
  computed({ keys, keyStart }: Request, from: number, to: number): void {
    for (let at = keyStart + from; at < keyStart + to; at++) this.#seen[keys[at]] = computed;
  }

  /** Blocks `[from, to)` of the request will not be computed: their step was rolled back. */
  rolledBack({ keys, keyStart }: Request, from: number, to: number): void {
    for (let at = keyStart + from; at < keyStart + to; at++)
      if (this.#seen[keys[at]] === computing) this.#seen[keys[at]] = never;
  }

  /** Miss reason of block i: `present` = it is cached, `matched` = blocks that the index matched. */
  missReason(request: Request, i: number, present: boolean, matched: number): number {
    if (present) return i < matched ? Miss.matchLimit : Miss.pastHole;
    const at = request.keyStart + i;
    const seen = this.#seen[request.keys[at]];
    if (seen !== never) return seen === computed ? Miss.evicted : Miss.notYetComputed;
    const { plainKeys } = request.blocks;
    return plainKeys && this.#seenPlain?.[plainKeys[at]] === computed ? Miss.otherNamespace : Miss.neverSeen;
  }

  /** Fills `missed` for the blocks `[hits, blocks)` of the table. */
  classify(
    request: Request,
    table: Int32Array,
    hits: number,
    matched: number,
    blocks: number,
    missed: MissedBlocks,
  ): void {
    missed.count.fill(0);
    for (let i = hits; i < blocks; i++) {
      missed.last = this.missReason(request, i, table[i] >= 0, matched);
      missed.count[missed.last]++;
    }
  }
}

function grownTo(bytes: Uint8Array, length: number): Uint8Array {
  return length <= bytes.length ? bytes : grown(bytes, Math.max(length, 2 * bytes.length));
}
