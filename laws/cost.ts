import { EntryColumns } from "../core/plugins/entry-columns.ts";
import type { EntryId, EvictionPlugin, EvictionPolicy, RequestView } from "../core/plugins/index.ts";
import { resolveRules } from "../core/plugins/rules.ts";
import { seededRandom } from "../core/random.ts";
import { type Law, require } from "./law.ts";

export const cheap: Law = {
  name: "cheap",
  says: "what an operation costs does not grow with the number of entries",
};

/** A clock in milliseconds, of the laboratory; the policy does not see it. */
export type Stopwatch = () => number;

/** What an operation costs in a cache of so many entries. */
export interface Cost {
  readonly entries: number;
  /** Of one call, over all methods in turn. */
  readonly nsPerOperation: number;
  /** The same for each method that is called; `victim` with the removal of the entry that it names. */
  readonly nsByMethod: Readonly<Record<string, number>>;
}

export interface Growth {
  readonly costs: readonly Cost[];
  /** Cost grows as the number of entries to the power of this: 0 = not at all, 1 = in proportion. */
  readonly exponent: number;
}

/** Entries or blocks that costs are measured with. */
export const sizes = [1_000, 4_000, 16_000, 64_000];

/** Far above what larger tables (caches of the processor) and logarithms do, which is below 0.4. */
export const mostExponent = 0.7;

const leastFillMs = 1000;

/**
 * Drives the policy alone, with ever more entries, through what a cache does: entries are held, hit and let go again;
 * victims go, and what is new takes their place. `measureMs` is spent on each number of entries, once they have come in;
 * if that takes too long, there are no more.
 */
export function measureGrowth(plugin: EvictionPlugin, now: Stopwatch, measureMs: number): Growth {
  // The first entries are slow whatever the policy does: its code is not compiled yet.
  measure(plugin, sizes[0], now, measureMs);
  const costs: Cost[] = [];
  for (const entries of sizes) {
    const cost = measure(plugin, entries, now, measureMs);
    costs.push(cost);
    if (cost.entries < entries) break;
  }
  const points = costs.map(({ entries, nsPerOperation }) => ({ count: entries, ns: nsPerOperation }));
  return { costs, exponent: growthExponent(points, isShort(costs)) };
}

/** @throws LawBroken if the cost grows with the number of entries. */
export function requireCheap({ costs, exponent }: Growth): void {
  require(cheap, exponent <= mostExponent, () => {
    const [few, many] = [costs[0], costs.at(-1)!];
    if (isShort(costs)) {
      const ms = (many.nsPerOperation / 1e6).toPrecision(2);
      return `one operation costs ${ms} ms with ${many.entries} entries: that is too slow to try it with more`;
    }
    const [worst] = Object.entries(many.nsByMethod).sort(([, a], [, b]) => b - a);
    const dearer = times(many.nsPerOperation / few.nsPerOperation);
    return (
      `one operation costs ${dearer} as much with ${times(many.entries / few.entries)} as many entries: ` +
      `it grows with the number of entries; most of it is spent in ${worst[0]}(). ` +
      `Does it go through all entries? (A Map or Set does that as a queue: it passes over all that was deleted at its ` +
      `front.) byScore, a heap or a list by entry does not`
    );
  });
}

export const times = (n: number) => `${n >= 10 ? Math.round(n) : n.toFixed(1)} ×`;

export const tooDear = ({ exponent }: Growth) => exponent > mostExponent;

/** Whether it was too slow for figures over a range of ten times as many entries. */
const isShort = (costs: readonly Cost[]) => costs.at(-1)!.entries < 10 * sizes[0];

/** The steepest of the whole range and its upper part; of a range too short to tell, at least 1. */
export function growthExponent(points: readonly { count: number; ns: number }[], isShort: boolean): number {
  const last = points.at(-1)!;
  const slopes = points
    .filter(({ count }) => count * 10 <= last.count)
    .map(({ count, ns }) => Math.log(last.ns / ns) / Math.log(last.count / count));
  return Math.max(isShort ? 1 : 0, ...slopes);
}

function measure(plugin: EvictionPlugin, entries: number, now: Stopwatch, measureMs: number): Cost {
  const fillMs = Math.max(leastFillMs, 6 * measureMs);
  const shelf = new Shelf(plugin, entries);
  const begin = now();
  const spent: Record<string, number[]> = {};
  let stop = begin + fillMs;
  while (shelf.filled < entries && now() < stop) shelf.fill(Math.min(entries, shelf.filled + batch));
  stop = now() + measureMs;
  // Of a policy that is this slow, a few rounds say enough.
  for (let round = 0; round < 5 || now() < stop; round++) {
    for (const { method, run } of shelf.round()) {
      const start = now();
      const count = run();
      const ns = ((now() - start) * 1e6) / count;
      spent[method] ??= [];
      spent[method].push(ns);
    }
    if (round >= 2 && now() > stop + measureMs) break;
  }
  const nsByMethod: Record<string, number> = {};
  for (const [method, times] of Object.entries(spent)) nsByMethod[method] = median(times);
  const all = Object.values(nsByMethod);
  return {
    entries: shelf.filled,
    nsPerOperation: all.reduce((sum, ns) => sum + ns, 0) / all.length,
    nsByMethod,
  };
}

/** Entries that one request uses. */
const batch = 64;
const blockTokens = 16;

/** Part of a round, which says how many times it called the method. */
interface Part {
  readonly method: string;
  readonly run: () => number;
}

/** A policy with entries that all may go, and no cache around it. */
class Shelf {
  filled = 0;
  readonly #columns: EntryColumns;
  readonly #policy: EvictionPolicy;
  readonly #random = seededRandom(1);
  readonly #some = new Int32Array(batch);
  #tick = 0;
  #requests = 0;
  #keys = 0;

  constructor(plugin: EvictionPlugin, entries: number) {
    const rules = resolveRules();
    this.#columns = new EntryColumns(entries, rules["free-order"]);
    this.#columns.keepAll();
    this.#policy = plugin.create({
      columns: this.#columns,
      random: seededRandom(1),
      capacityBlocks: entries,
      rules,
    });
  }

  /** Entries `[filled, to)` come in with one request. */
  fill(to: number): void {
    const request = this.#begin();
    for (let entry = this.filled; entry < to; entry++) this.#create(entry, request, entry - this.filled);
    this.#tick++;
    for (let entry = to - 1; entry >= this.filled; entry--) this.#release(entry);
    this.filled = to;
  }

  *round(): Generator<Part> {
    const policy = this.#policy;
    const some = this.#some;
    const first = this.#random.below(Math.max(1, this.filled - batch));
    const stride = Math.max(1, Math.floor(this.filled / batch));
    const count = Math.min(batch, this.filled);
    for (let i = 0; i < count; i++) some[i] = (first + i * stride) % this.filled;
    const used = this.#begin();
    yield { method: "remove", run: each(some, count, (entry) => policy.remove(entry, "referenced")) };
    for (let i = 0; i < count; i++) this.#columns.hit(some[i]);
    const hit = policy.hit?.bind(policy);
    if (hit) yield { method: "hit", run: each(some, count, (entry) => hit(entry, used)) };
    this.#tick++;
    for (let i = 0; i < count; i++) this.#columns.touched(some[i], this.#tick);
    yield { method: "add", run: each(some, count, (entry) => policy.add(entry)) };
    let gone = 0;
    yield {
      method: "victim",
      run: () => {
        for (; gone < count; gone++) {
          const victim = policy.victim(0);
          if (victim === undefined) break;
          policy.remove(victim, "evicted");
          some[gone] = victim;
        }
        return Math.max(1, gone);
      },
    };
    const request = this.#begin();
    for (let i = 0; i < gone; i++) this.#describe(some[i], i);
    const published = policy.published?.bind(policy);
    if (published) yield { method: "published", run: each(some, gone, (entry) => published(entry, request)) };
    this.#tick++;
    for (let i = 0; i < gone; i++) this.#columns.touched(some[i], this.#tick);
    yield { method: "add", run: each(some, gone, (entry) => policy.add(entry)) };
  }

  #begin(): RequestView {
    const id = this.#requests++;
    this.#tick++;
    const request: RequestView = {
      id,
      arrivalNs: id,
      inputTokens: batch * blockTokens,
      maxOutputTokens: 1,
      namespace: 0,
      session: id,
      category: 0,
      priority: 0,
      markedTokens: 0,
      keys: new Uint32Array(batch).map((_, i) => this.#keys + i),
      keyStart: 0,
      promptBlocks: batch,
    };
    this.#policy.begin?.(request, 0);
    return request;
  }

  #create(entry: EntryId, request: RequestView, place: number): void {
    this.#describe(entry, place);
    this.#policy.published?.(entry, request);
  }

  #describe(entry: EntryId, place: number): void {
    this.#columns.created(entry, this.#tick, (place + 1) * blockTokens, blockTokens, this.#keys++);
  }

  #release(entry: EntryId): void {
    this.#columns.touched(entry, this.#tick);
    this.#policy.add(entry);
  }
}

function each(entries: Int32Array, count: number, act: (entry: EntryId) => void): () => number {
  return () => {
    for (let i = 0; i < count; i++) act(entries[i]);
    return Math.max(1, count);
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}
