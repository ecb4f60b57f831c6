import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { chanceOf } from "../../core/random.ts";
import { ByUse } from "./by-use.ts";
import { CalendarQueue, inUnit } from "./calendar-queue.ts";

/**
 * Evicts a random leaf among those that were not used in the current phase; if there is none, it evicts a random one and a new phase
 * begins (RLT, Wu, Silwal, Zhang: Randomization Boosts KV Caching, Learning Balances Query Load, ICLR 2026; without prefixes it is the
 * marking algorithm of Fiat et al., 1991). `random` draws among all evictable entries, whether they were used lately or not.
 *
 * An entry draws a number from 0 to 1 when it becomes evictable, and the smallest sum of phase and number is evicted: a draw with equal
 * probability. Differences: in a hash table every unreferenced block is evictable, not only leaves. Entries that are referenced when
 * a phase begins are used in it.
 */
class RandomLeaf extends ByUse {
  readonly #lastAccess: Uint32Array;
  readonly #seed: number;
  #draws = 0;
  #phase = 0;
  /** Tick of the latest release, and its value when the phase began. */
  #latest = 0;
  #phaseStart = 0;

  constructor(context: EvictionContext) {
    super(context, new CalendarQueue(context.columns.key.length));
    this.#lastAccess = context.columns.lastAccess;
    this.#seed = context.random.below(2 ** 31);
  }

  /** The phase of the entry's last release plus its number. */
  protected override score(entry: EntryId): number {
    const tick = this.#lastAccess[entry];
    if (tick > this.#latest) this.#latest = tick;
    const phase = tick > this.#phaseStart ? this.#phase : this.#phase - 1;
    return inUnit(phase, chanceOf(this.#seed, this.#draws++));
  }

  protected override evicted(_entry: EntryId, score: number): void {
    if (score < this.#phase) return;
    this.#phase++;
    this.#phaseStart = this.#latest;
  }
}

export const randomLeaf: EvictionPlugin = {
  name: "random-leaf",
  about: "evicts a leaf at random among those that were not used in the current phase (seeded)",
  source: "RLT: Wu, Silwal, Zhang, ICLR 2026",
  onlyByName: true,
  columns: ["lastAccess"],
  create: (context) => new RandomLeaf(context),
};
