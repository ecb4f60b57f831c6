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

/** By class, and of no class: the fewest uses of its entries. */
const fewestUses = Float64Array.from({ length: classCount + 1 }, (_, index) => usesOf(index));
const noClass = classCount;
fewestUses[noClass] = Number.POSITIVE_INFINITY;

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
  /** Result of the latest search: class of the victim, and class and age of the first entry of another class that would be next. */
  #victimClass = noClass;
  #nextClass = noClass;
  #nextAge = 1;
  /** Whether only victims of their class were removed since that search. */
  #isSearched = false;

  constructor(context: EvictionContext) {
    super(context, classCount);
    const entryCount = context.columns.key.length;
    this.#places = new InsertionPlaces(context);
    this.#uses = new Uint32Array(entryCount);
    this.#insertedAt = new Float64Array(entryCount);
  }

  begin({ id }: RequestView): void {
    this.#now = Math.max(this.#now, id);
    this.#isSearched = false;
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
    this.#isSearched = false;
    this.lists.move(entry, index, this.lists.place[entry]);
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#uses[upper] = this.#uses[lower];
    this.#insertedAt[upper] = this.#insertedAt[lower];
    super.split(lower, upper);
  }

  override add(entry: EntryId): void {
    this.#isSearched = false;
    super.add(entry);
  }

  override remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void {
    if (why !== "evicted") this.#isSearched = false;
    super.remove(entry, why);
  }

  /** The next victim is of the same class as the last one as long as it precedes the entries that the search has found in others. */
  victim(): EntryId | undefined {
    if (this.#isSearched) {
      const entry = this.lists.first(this.#victimClass);
      if (entry !== undefined && precedes(this.#victimClass, this.#ageOf(entry), this.#nextClass, this.#nextAge))
        return entry;
    }
    return this.#search();
  }

  /** Compares the first entries of all classes. */
  #search(): EntryId | undefined {
    let victim: EntryId | undefined;
    let victimClass = noClass;
    let victimAge = 1;
    let nextClass = noClass;
    let nextAge = 1;
    for (let index = 0; index <= this.#lastClass; index++) {
      const entry = this.lists.first(index);
      if (entry === undefined) continue;
      const age = this.#ageOf(entry);
      if (precedes(index, age, victimClass, victimAge)) {
        nextClass = victimClass;
        nextAge = victimAge;
        victim = entry;
        victimClass = index;
        victimAge = age;
      } else if (precedes(index, age, nextClass, nextAge)) {
        nextClass = index;
        nextAge = age;
      }
    }
    this.#victimClass = victimClass;
    this.#nextClass = nextClass;
    this.#nextAge = nextAge;
    this.#isSearched = victim !== undefined;
    return victim;
  }

  #ageOf(entry: EntryId): number {
    return this.#now - this.#insertedAt[entry] + 1;
  }

  protected override evicted(): void {}
}

/** Whether an entry of class `a` is evicted before one of class `b`: it has fewer uses for its age, of equals fewer uses. */
function precedes(a: number, ageA: number, b: number, ageB: number): boolean {
  const difference = fewestUses[a] * ageB - fewestUses[b] * ageA;
  return difference < 0 || (difference === 0 && a < b);
}

export const hyperbolic: EvictionPlugin = {
  name: "hyperbolic",
  about: "evicts the entry with the fewest uses per request since its insertion",
  source: "hyperbolic caching: Blankstein et al., USENIX ATC 2017",
  onlyByName: true,
  columns: ["createdAt"],
  create: (context) => new Hyperbolic(context),
};
