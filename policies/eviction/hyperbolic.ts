import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { InsertionPlaces } from "./places.ts";

/** Uses are exact up to this number; above it there are `classesPerDoubling` classes from each number to twice the number. */
const exactUses = 16;
const classesPerDoubling = 8;
const classCount = exactUses + classesPerDoubling * 28;

/** The class of entries with this many uses, from 0. */
function classOf(uses: number): number {
  if (uses <= exactUses) return uses - 1;
  const doublings = 31 - Math.clz32(uses / exactUses);
  const part = Math.floor((uses / (exactUses * 2 ** doublings) - 1) * classesPerDoubling);
  return Math.min(classCount - 1, exactUses - 1 + classesPerDoubling * doublings + part);
}

/** The fewest uses of the entries in a class. */
function usesOf(index: number): number {
  if (index < exactUses) return index + 1;
  const above = index - exactUses + 1;
  const doublings = Math.floor(above / classesPerDoubling);
  return exactUses * 2 ** doublings * (1 + (above % classesPerDoubling) / classesPerDoubling);
}

/**
 * Hyperbolic caching: evicts the entry with the fewest uses per time since its insertion; the insertion is a use. Time is the number
 * of requests (Blankstein, Sen, Freedman: Hyperbolic Caching: Flexible Caching for Web Applications, USENIX ATC 2017).
 *
 * Difference: the paper evicts the lowest of 64 entries drawn at random. Here it is the lowest of all: entries with equally
 * many uses are in one list in the order of insertion, so that the first entries of the lists are compared. Above 16, uses are
 * rounded down to 8 steps per doubling, so that there are few lists. Of equals the one with fewer uses is evicted, and then in
 * release order. After a split both halves have the uses and the time of insertion.
 */
class Hyperbolic extends ByLists {
  readonly #places: InsertionPlaces;
  readonly #uses: Uint32Array;
  /** By entry: the latest request when it was inserted. */
  readonly #insertedAt: Float64Array;
  /** The latest request. */
  #now = 0;
  /** The largest class that any entry has had. */
  #lastClass = 0;

  constructor(context: EvictionContext) {
    super(context, classCount);
    const entryCount = context.columns.key.length;
    this.#places = new InsertionPlaces(context);
    this.#uses = new Uint32Array(entryCount);
    this.#insertedAt = new Float64Array(entryCount);
  }

  begin({ id }: RequestView): void {
    this.#now = Math.max(this.#now, id);
  }

  published(entry: EntryId): void {
    this.#uses[entry] = 1;
    this.#insertedAt[entry] = this.#now;
    this.lists.insert(entry, classOf(1), this.#places.inserted(entry));
  }

  hit(entry: EntryId): void {
    const index = classOf(++this.#uses[entry]);
    if (index === this.lists.listOf(entry)) return;
    this.#lastClass = Math.max(this.#lastClass, index);
    this.lists.move(entry, index, this.lists.place[entry]);
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#uses[upper] = this.#uses[lower];
    this.#insertedAt[upper] = this.#insertedAt[lower];
    super.split(lower, upper);
  }

  victim(): EntryId | undefined {
    let victim: EntryId | undefined;
    let victimUses = 0;
    let victimAge = 1;
    for (let index = 0; index <= this.#lastClass; index++) {
      const entry = this.lists.first(index);
      if (entry === undefined) continue;
      const uses = usesOf(index);
      const age = this.#now - this.#insertedAt[entry] + 1;
      if (victim !== undefined && uses * victimAge >= victimUses * age) continue;
      victim = entry;
      victimUses = uses;
      victimAge = age;
    }
    return victim;
  }

  protected override evicted(): void {}
}

export const hyperbolic: EvictionPlugin = {
  name: "hyperbolic",
  about: "evicts the entry with the fewest uses per request since its insertion",
  source: "hyperbolic caching: Blankstein et al., USENIX ATC 2017",
  onlyByName: true,
  columns: ["createdAt"],
  create: (context) => new Hyperbolic(context),
};
