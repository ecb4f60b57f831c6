import type { EntryId, EvictionPlugin, EvictionPolicy } from "kvlab";

/**
 * CLOCK (Corbató 1968), written without byScore to show all that a policy must do: entries wait in a queue; the one in
 * front goes, unless it was used since it came there, then it gets a second chance at the end.
 *
 * Asked twice, `victim` gives the same, as it must: whoever it gave a second chance is behind the one it named.
 */
class Clock implements EvictionPolicy {
  /** In order; a Map keeps the order in which its keys were set. */
  readonly #queue = new Map<EntryId, true>();
  readonly #used = new Set<EntryId>();

  add(entry: EntryId): void {
    this.#queue.set(entry, true);
  }

  remove(entry: EntryId, why: "held" | "evicted" | "dropped"): void {
    this.#queue.delete(entry);
    if (why !== "held") this.#used.delete(entry);
  }

  hit(entry: EntryId): void {
    this.#used.add(entry);
  }

  victim(): EntryId | undefined {
    for (const entry of this.#queue.keys()) {
      if (!this.#used.delete(entry)) return entry;
      this.#queue.delete(entry);
      this.#queue.set(entry, true);
    }
    return undefined;
  }
}

const clock: EvictionPlugin = {
  name: "clock",
  about: "first in first out, with a second chance for what was used again",
  source: "Corbató 1968",
  create: () => new Clock(),
};

export default clock;
