import { grown } from "../grown.ts";
import type { Nanos } from "../trace/trace.ts";

/**
 * What is to happen, earliest first; of two at the same time the one that was put in first. A binary heap over typed arrays:
 * a heap that does not keep the order of equals would make runs differ.
 */
export class EventQueue {
  #timeNs = new Float64Array(64);
  /** Order of insertion, which breaks ties; exact up to 2^53. */
  #order = new Float64Array(64);
  #what = new Float64Array(64);
  #count = 0;
  #inserted = 0;

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** Time of the earliest event; infinite if there is none. */
  get nextNs(): Nanos {
    return this.#count === 0 ? Number.POSITIVE_INFINITY : this.#timeNs[0];
  }

  /** `what` is any number: the caller knows what it stands for. */
  push(timeNs: Nanos, what: number): void {
    if (this.#count === this.#timeNs.length) this.#grow();
    const order = this.#inserted++;
    let at = this.#count++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.#timeNs[parent] <= timeNs) break;
      this.#move(parent, at);
      at = parent;
    }
    this.#put(at, timeNs, order, what);
  }

  /** Takes the earliest event out. */
  pop(): number {
    const what = this.#what[0];
    const last = --this.#count;
    if (last > 0) this.#sink(this.#timeNs[last], this.#order[last], this.#what[last]);
    return what;
  }

  #sink(timeNs: Nanos, order: number, what: number): void {
    let at = 0;
    for (let child = 1; child < this.#count; child = 2 * at + 1) {
      if (child + 1 < this.#count && this.#isBefore(child + 1, this.#timeNs[child], this.#order[child])) child++;
      if (!this.#isBefore(child, timeNs, order)) break;
      this.#move(child, at);
      at = child;
    }
    this.#put(at, timeNs, order, what);
  }

  #isBefore(at: number, timeNs: Nanos, order: number): boolean {
    return this.#timeNs[at] < timeNs || (this.#timeNs[at] === timeNs && this.#order[at] < order);
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#timeNs[from], this.#order[from], this.#what[from]);
  }

  #put(at: number, timeNs: Nanos, order: number, what: number): void {
    this.#timeNs[at] = timeNs;
    this.#order[at] = order;
    this.#what[at] = what;
  }

  #grow(): void {
    const length = this.#timeNs.length * 2;
    this.#timeNs = grown(this.#timeNs, length);
    this.#order = grown(this.#order, length);
    this.#what = grown(this.#what, length);
  }
}
