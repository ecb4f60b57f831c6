import { grown } from "../../core/grown.ts";

/**
 * Reuse distances of references: a repeated reference at distance d has exactly d different keys between it and the previous
 * use of its key, so an LRU cache of more than d entries hits it.
 *
 * Bennett and Kruskal's method: a mark stands at the time of each key's last use, so that the marks after it are the
 * keys used since; a Fenwick tree counts them. Times are renumbered whenever they run out, so that memory depends on
 * the number of different keys and not on the number of references.
 */
export class ReuseDistances {
  /** References at each distance; first uses are not counted. */
  counts: Float64Array = new Float64Array(1024);
  #lastUse: Int32Array = new Int32Array(1024).fill(-1);
  readonly #marks = new Marks();
  #distinct = 0;
  #now = 0;

  /** The distance of this reference; −1 for the first use of a key. */
  add(key: number): number {
    if (key >= this.#lastUse.length) this.#grow(key);
    if (this.#now === this.#marks.length) this.#now = this.#marks.renumber(this.#lastUse, 4 * this.#distinct);
    const last = this.#lastUse[key];
    let distance = -1;
    if (last >= 0) {
      distance = this.#marks.countAfter(last);
      this.counts[distance]++;
      this.#marks.remove(last);
    } else this.#distinct++;
    this.#lastUse[key] = this.#now;
    this.#marks.add(this.#now++);
    return distance;
  }

  #grow(key: number): void {
    const known = this.#lastUse.length;
    const length = Math.max(key + 1, 2 * known);
    this.#lastUse = grown(this.#lastUse, length).fill(-1, known);
    this.counts = grown(this.counts, length);
  }
}

/** Marks on positions 0 .. `length` − 1, counted in logarithmic time. */
class Marks {
  length = 1024;
  /** Node i, from 1, counts the marks on the (i & −i) places up to place i − 1. */
  #tree = new Int32Array(1025);
  #count = 0;

  add(place: number): void {
    this.#count++;
    for (let node = place + 1; node <= this.length; node += node & -node) this.#tree[node]++;
  }

  remove(place: number): void {
    this.#count--;
    for (let node = place + 1; node <= this.length; node += node & -node) this.#tree[node]--;
  }

  countAfter(place: number): number {
    let before = 0;
    for (let node = place + 1; node > 0; node -= node & -node) before += this.#tree[node];
    return this.#count - before;
  }

  /** Moves all marks to the front, in their order, and writes their new positions. The length is `length` at least. */
  renumber(places: Int32Array, length: number): number {
    const owner = new Int32Array(this.length).fill(-1);
    for (let key = 0; key < places.length; key++) if (places[key] >= 0) owner[places[key]] = key;
    if (length > this.length) {
      this.length = length;
      this.#tree = new Int32Array(length + 1);
    } else this.#tree.fill(0);
    this.#count = 0;
    for (const key of owner) {
      if (key < 0) continue;
      places[key] = this.#count;
      this.add(this.#count);
    }
    return this.#count;
  }
}
