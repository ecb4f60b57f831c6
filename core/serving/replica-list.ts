import type { TimedReplica } from "./timed-replica.ts";

/**
 * Replicas in the order of their numbers, each at most once. It is emptied once per step, so that its array is kept: a length of
 * 0 would release the memory of the elements.
 */
export class ReplicaList {
  count = 0;
  readonly #replicas: TimedReplica[] = [];

  at(i: number): TimedReplica {
    return this.#replicas[i];
  }

  add(replica: TimedReplica): void {
    const replicas = this.#replicas;
    let at = this.count;
    while (at > 0 && replicas[at - 1].number >= replica.number) at--;
    if (at < this.count && replicas[at] === replica) return;
    for (let i = this.count; i > at; i--) replicas[i] = replicas[i - 1];
    replicas[at] = replica;
    this.count++;
  }

  clear(): void {
    this.count = 0;
  }
}
