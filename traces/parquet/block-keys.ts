import { grown } from "../../core/grown.ts";
import { DenseIds } from "../dense-ids.ts";
import type { Numbers } from "./column.ts";

const noParent = 0xffff_ffff;

/**
 * Numbers the content ids of a file densely by first appearance, and checks that each follows the same id everywhere. The
 * ids that kvlab writes are numbered already; a table of ids is only needed from the first id that is not.
 */
export class BlockKeys {
  #count = 0;
  #ids: DenseIds | undefined;
  /** For each dense id, the id before it. */
  #parents = new Uint32Array(1 << 12);

  /**
   * Numbers the ids of one list, in `keys[from .. to)`. Returns undefined, or the index of an id that is not an integer of up
   * to 64 bits or follows another id than before.
   */
  number(ids: Numbers, keys: Uint32Array, from: number, to: number): number | undefined {
    let previous = noParent;
    for (let i = from; i < to; i++) {
      const known = this.#count;
      const key = this.#ids ? this.#hashed(this.#ids, ids[i]) : this.#dense(ids[i]);
      if (key === undefined) return i;
      if (key === known) {
        if (key >= this.#parents.length) this.#parents = grown(this.#parents, this.#parents.length * 2);
        this.#parents[key] = previous;
      } else if (this.#parents[key] !== previous) return i;
      keys[i] = previous = key;
    }
    return undefined;
  }

  #dense(id: number | bigint): number | undefined {
    const key = Number(id);
    if (key > this.#count || !Number.isInteger(key) || key < 0) {
      this.#ids = new DenseIds();
      for (let known = 0; known < this.#count; known++) this.#hashed(this.#ids, known);
      return this.#hashed(this.#ids, id);
    }
    if (key === this.#count) this.#count++;
    return key;
  }

  #hashed(ids: DenseIds, id: number | bigint): number | undefined {
    if (typeof id === "bigint" ? id < 0n : !(Number.isInteger(id) && id >= 0 && id < 2 ** 53)) return undefined;
    const key =
      typeof id === "bigint"
        ? ids.numberOf(Number(id / 1_000_000_000n), Number(id % 1_000_000_000n))
        : ids.numberOf(Math.floor(id / 1e9), id % 1e9);
    this.#count = ids.count;
    return key;
  }
}
