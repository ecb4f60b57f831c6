import type { ReplicaRequests, RequestView } from "../plugins/index.ts";
import { type Sequence, SequenceQueue } from "./request.ts";

/** The requests of the replica that a cache belongs to; none until it is connected. */
export class CacheRequests implements ReplicaRequests {
  #queue = new SequenceQueue();
  #running: () => Iterable<Sequence> = () => [];

  /** `queue` is the replica's own; `running` returns the sequences that run now. */
  connect(queue: SequenceQueue, running: () => Iterable<Sequence>): void {
    this.#queue = queue;
    this.#running = running;
  }

  get queueVersion(): number {
    return this.#queue.version;
  }

  get waitingCount(): number {
    return this.#queue.count;
  }

  *waiting(): Iterable<RequestView> {
    for (let sequence = this.#queue.first; sequence !== undefined; sequence = sequence.next) yield sequence.request;
  }

  *running(): Iterable<RequestView> {
    for (const { request } of this.#running()) yield request;
  }
}
