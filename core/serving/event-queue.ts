import { grown } from "../grown.ts";
import type { Nanos } from "../trace/trace.ts";

/**
 * A priority queue of events by time; events at equal times keep their order of insertion, without which runs would not be
 * deterministic. A binary heap over typed arrays.
 */
export class EventQueue {
  #timeNs = new Float64Array(64);
  /** Insertion counter, which breaks ties; exact up to 2^53. */
  #order = new Float64Array(64);
  #event = new Float64Array(64);
  #count = 0;
  #inserted = 0;

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** Time of the earliest event; infinite if there is none. */
  get nextNs(): Nanos {
    return this.#count === 0 ? Number.POSITIVE_INFINITY : this.#timeNs[0];
  }

  /** `event` is any number that identifies the event to the caller. */
  push(timeNs: Nanos, event: number): void {
    if (this.#count === this.#timeNs.length) this.#grow();
    const order = this.#inserted++;
    let at = this.#count++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.#timeNs[parent] <= timeNs) break;
      this.#move(parent, at);
      at = parent;
    }
    this.#put(at, timeNs, order, event);
  }

  /** Removes and returns the earliest event. */
  pop(): number {
    const event = this.#event[0];
    const last = --this.#count;
    if (last > 0) this.#sink(this.#timeNs[last], this.#order[last], this.#event[last]);
    return event;
  }

  #sink(timeNs: Nanos, order: number, event: number): void {
    let at = 0;
    for (let child = 1; child < this.#count; child = 2 * at + 1) {
      if (child + 1 < this.#count && this.#isBefore(child + 1, this.#timeNs[child], this.#order[child])) child++;
      if (!this.#isBefore(child, timeNs, order)) break;
      this.#move(child, at);
      at = child;
    }
    this.#put(at, timeNs, order, event);
  }

  #isBefore(at: number, timeNs: Nanos, order: number): boolean {
    return this.#timeNs[at] < timeNs || (this.#timeNs[at] === timeNs && this.#order[at] < order);
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#timeNs[from], this.#order[from], this.#event[from]);
  }

  #put(at: number, timeNs: Nanos, order: number, event: number): void {
    this.#timeNs[at] = timeNs;
    this.#order[at] = order;
    this.#event[at] = event;
  }

  #grow(): void {
    const length = this.#timeNs.length * 2;
    this.#timeNs = grown(this.#timeNs, length);
    this.#order = grown(this.#order, length);
    this.#event = grown(this.#event, length);
  }
}
