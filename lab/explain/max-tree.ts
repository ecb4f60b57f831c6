import { grown } from "../../core/grown.ts";

/** The largest of a column of numbers from 0 that change: O(log n) a change. */
export class MaxTree {
  /** Node i has the larger of nodes 2 i and 2 i + 1; the numbers are the leaves. */
  #nodes = new Float64Array(2);
  #leaves = 1;

  get max(): number {
    return this.#nodes[1];
  }

  /** An index that has the largest number: the smallest of several. */
  get argMax(): number {
    const nodes = this.#nodes;
    let at = 1;
    while (at < this.#leaves) at = nodes[2 * at] >= nodes[2 * at + 1] ? 2 * at : 2 * at + 1;
    return at - this.#leaves;
  }

  at(index: number): number {
    return index < this.#leaves ? this.#nodes[this.#leaves + index] : 0;
  }

  set(index: number, value: number): void {
    if (index >= this.#leaves) this.#grow(index + 1);
    const nodes = this.#nodes;
    let at = this.#leaves + index;
    if (nodes[at] === value) return;
    nodes[at] = value;
    for (at >>= 1; at >= 1; at >>= 1) {
      const larger = Math.max(nodes[2 * at], nodes[2 * at + 1]);
      if (nodes[at] === larger) return;
      nodes[at] = larger;
    }
  }

  #grow(count: number): void {
    const before = this.#nodes.subarray(this.#leaves, 2 * this.#leaves);
    while (this.#leaves < count) this.#leaves *= 2;
    this.#nodes = grown(new Float64Array(0), 2 * this.#leaves);
    this.#nodes.set(before, this.#leaves);
    for (let at = this.#leaves - 1; at >= 1; at--)
      this.#nodes[at] = Math.max(this.#nodes[2 * at], this.#nodes[2 * at + 1]);
  }
}
