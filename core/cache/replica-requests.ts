import type { ReplicaRequests, RequestView } from "../plugins/index.ts";
import { type Sequence, SequenceQueue } from "./request.ts";

/** The requests of the replica that a cache belongs to; none until it is connected. */
export class CacheRequests implements ReplicaRequests {
  #queue = new SequenceQueue();
  #admitting: Sequence | undefined;
  #admissions = 0;
  #running: () => Iterable<Sequence> = () => [];

  /** `queue` is the replica's own; `running` returns the sequences that run now. */
  connect(queue: SequenceQueue, running: () => Iterable<Sequence>): void {
    this.#queue = queue;
    this.#running = running;
  }

  /** The sequence is being admitted: it may still be in the replica's queue and does not wait any more; undefined = none is. */
  admitting(sequence: Sequence | undefined): void {
    this.#admitting = sequence;
    this.#admissions++;
  }

  get queueVersion(): number {
    return this.#queue.version + this.#admissions;
  }

  get waitingCount(): number {
    const { count } = this.#queue;
    return this.#admitting !== undefined && this.#queue.has(this.#admitting) ? count - 1 : count;
  }

  *waiting(): Iterable<RequestView> {
    for (let sequence = this.#queue.first; sequence !== undefined; sequence = sequence.next)
      if (sequence !== this.#admitting) yield sequence.request;
  }

  *running(): Iterable<RequestView> {
    for (const { request } of this.#running()) yield request;
  }
}
