import fc from "fast-check";
import { expect, test } from "vitest";
import { ClientSessions } from "../../../core/cache/client-sessions.ts";
import { CacheRequests } from "../../../core/cache/replica-requests.ts";
import { byScore, type Score } from "../../../core/plugins/by-score.ts";
import { EntryColumns } from "../../../core/plugins/entry-columns.ts";
import type { EvictionPolicy } from "../../../core/plugins/index.ts";
import { resolveRules } from "../../../core/plugins/rules.ts";
import { seededRandom } from "../../../core/random.ts";
import { runs } from "../../laws/all-plugins.ts";

// Compared with an array that is sorted for every victim.

const columnNames = [
  "lastAccess",
  "createdAt",
  "accessCount",
  "depth",
  "tokens",
  "releaseOrder",
  "recomputeCost",
  "key",
] as const;
const level = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...columnNames) },
  { weight: 1, arbitrary: fc.constantFrom(...columnNames).map((name) => `-${name}` as const) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Score>(
      (entry, { depth }) => depth[entry] % 3,
      (entry, { accessCount }) => -accessCount[entry],
      () => 0,
    ),
  },
);
const orders: fc.Arbitrary<[Score, ...Score[]]> = fc.oneof(
  fc.tuple(level),
  fc.tuple(level, level),
  fc.tuple(level, level, level),
  fc.constant<[Score, Score]>(["lastAccess", "releaseOrder"]),
  fc.constant<[Score, Score]>(["createdAt", "releaseOrder"]),
  fc.constant<[Score]>(["lastAccess"]),
);

const entryCount = 24;
interface Waiting {
  readonly entry: number;
  readonly scores: readonly number[];
}

/** Entries that are created, hit, released and evicted as by a cache; every victim is compared. */
class Trial {
  readonly #columns: EntryColumns;
  readonly #policy: EvictionPolicy;
  readonly #order: readonly Score[];
  readonly #forward: boolean;
  readonly #absent = new Set(Array.from({ length: entryCount }, (_, entry) => entry));
  readonly #referenced = new Set<number>();
  /** Evictable entries, in the order in which they became evictable. */
  #idle: Waiting[] = [];
  #tick = 0;

  constructor(order: [Score, ...Score[]], forward: boolean) {
    this.#order = order;
    this.#forward = forward;
    this.#columns = new EntryColumns(entryCount, forward ? "forward" : "reverse");
    this.#columns.keepAll();
    this.#policy = byScore(...order).create({
      columns: this.#columns,
      random: seededRandom(1),
      clock: { now: 0 },
      options: {},
      requests: new CacheRequests(),
      sessions: new ClientSessions(undefined),
      blockTokens: 16,
      capacityBlocks: entryCount,
      rules: resolveRules({ "free-order": forward ? "forward" : "reverse" }),
    });
  }

  do([what, which, count]: [number, number, number]): void {
    this.#tick++;
    const some = (from: Iterable<number>) => {
      const all = [...from];
      return all.map((_, i) => all[(i + which) % all.length]).slice(0, count);
    };
    if (what < 3) this.#create(some(this.#absent));
    else if (what < 7) this.#release(some(this.#referenced), what % 2 === 0);
    else if (what === 7) for (const entry of some(this.#referenced)) this.#columns.hit(entry);
    else if (what === 8) for (const entry of some(this.#idle.map((is) => is.entry))) this.#remove(entry, "referenced");
    else if (what === 9) for (const entry of some(this.#idle.map((is) => is.entry))) this.#remove(entry, "dropped");
    else this.#evict(Math.min(count, this.#idle.length), what === 10);
    expect(this.#policy.victim(0)).toBe(this.#next()?.entry);
    expect(this.#policy.victim(0)).toBe(this.#next()?.entry);
  }

  #create(entries: number[]): void {
    entries.forEach((entry, i) => {
      this.#columns.created(entry, this.#tick, 16 * (i + 1), 16 - (i % 2), (7 * entry + this.#tick) % 5);
      this.#absent.delete(entry);
      this.#referenced.add(entry);
    });
  }

  /** Releases the entries of one request: at different depths, in the order of the rule. */
  #release(entries: number[], together: boolean): void {
    const { depth } = this.#columns;
    const one = entries.filter((entry, i) => entries.findIndex((other) => depth[other] === depth[entry]) === i);
    one.sort((a, b) => (this.#forward ? depth[a] - depth[b] : depth[b] - depth[a]));
    for (const entry of one) {
      this.#columns.touched(entry, this.#tick);
      this.#referenced.delete(entry);
      this.#idle.push({ entry, scores: this.#order.map((score) => this.#scoreOf(entry, score)) });
    }
    if (together && this.#policy.addMany) this.#policy.addMany(Int32Array.from(one), one.length);
    else for (const entry of one) this.#policy.add(entry);
  }

  #scoreOf(entry: number, score: Score): number {
    if (typeof score === "function") return score(entry, this.#columns);
    const isDown = score.startsWith("-");
    const column = this.#columns[(isDown ? score.slice(1) : score) as (typeof columnNames)[number]];
    return isDown ? -column[entry] : column[entry];
  }

  #remove(entry: number, why: "referenced" | "evicted" | "dropped"): void {
    this.#policy.remove(entry, why);
    this.#idle = this.#idle.filter((is) => is.entry !== entry);
    (why === "referenced" ? this.#referenced : this.#absent).add(entry);
  }

  #evict(count: number, together: boolean): void {
    if (!together || !this.#policy.takeMany) {
      for (let i = 0; i < count; i++) {
        const victim = this.#next()!.entry;
        expect(this.#policy.victim(0)).toBe(victim);
        this.#remove(victim, "evicted");
      }
      return;
    }
    const into = new Int32Array(count + 2).fill(-1);
    expect(this.#policy.takeMany(into, 1, count + 1)).toBe(count + 1);
    const expected = Array.from({ length: count }, () => {
      const { entry } = this.#next()!;
      this.#idle = this.#idle.filter((is) => is.entry !== entry);
      this.#absent.add(entry);
      return entry;
    });
    expect([...into]).toEqual([-1, ...expected, -1]);
  }

  #next(): Waiting | undefined {
    const less = (a: Waiting, b: Waiting) => {
      const at = a.scores.findIndex((score, i) => score !== b.scores[i]);
      return at >= 0 && a.scores[at] < b.scores[at];
    };
    return this.#idle.reduce<Waiting | undefined>((best, is) => (!best || less(is, best) ? is : best), undefined);
  }
}

test("byScore returns the victims of a sorted array, for any order and any sequence of calls", () => {
  const step = fc.tuple(fc.nat(11), fc.nat(23), fc.integer({ min: 1, max: 6 }));
  fc.assert(
    fc.property(orders, fc.boolean(), fc.array(step, { maxLength: 80, size: "max" }), (order, forward, steps) => {
      const shelf = new Trial(order, forward);
      for (const one of steps) shelf.do(one);
    }),
    { numRuns: runs(400) },
  );
});
