/**
 * Reuse distances: `counts[d]` repeated references have exactly d different keys between them and the previous use of their
 * key, so an LRU cache of more than d entries hits them. First uses are not counted.
 *
 * Bennett and Kruskal's method: a mark stands at the time of each key's last use, so that the marks after it are the
 * keys used since; a Fenwick tree counts them. Times are renumbered whenever they run out, so that memory depends on
 * the number of different keys and not on the number of references.
 */
export function reuseDistances(keys: Uint32Array, distinct: number): { counts: Float64Array } {
  const counts = new Float64Array(distinct);
  const lastUse = new Int32Array(distinct).fill(-1);
  const marks = new Marks(Math.max(1024, 2 * distinct));
  let now = 0;
  for (const key of keys) {
    if (now === marks.length) now = marks.renumber(lastUse);
    const last = lastUse[key];
    if (last >= 0) {
      counts[marks.countAfter(last)]++;
      marks.remove(last);
    }
    lastUse[key] = now;
    marks.add(now++);
  }
  return { counts };
}

/** Marks on positions 0 .. `length` − 1, counted in logarithmic time. */
class Marks {
  readonly length: number;
  /** Node i, from 1, counts the marks on the (i & −i) places up to place i − 1. */
  readonly #tree: Int32Array;
  #count = 0;

  constructor(length: number) {
    this.length = length;
    this.#tree = new Int32Array(length + 1);
  }

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

  /** Moves all marks to the front, in their order, and writes their new positions. */
  renumber(places: Int32Array): number {
    const owner = new Int32Array(this.length).fill(-1);
    for (let key = 0; key < places.length; key++) if (places[key] >= 0) owner[places[key]] = key;
    this.#tree.fill(0);
    this.#count = 0;
    for (const key of owner) {
      if (key < 0) continue;
      places[key] = this.#count;
      this.add(this.#count);
    }
    return this.#count;
  }
}
