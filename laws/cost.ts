import { ClientSessions } from "../core/cache/client-sessions.ts";
import { CacheRequests } from "../core/cache/replica-requests.ts";
import { EntryColumns } from "../core/plugins/entry-columns.ts";
import type { EntryId, EvictionPlugin, EvictionPolicy, RequestView } from "../core/plugins/index.ts";
import { resolveRules } from "../core/plugins/rules.ts";
import { seededRandom } from "../core/random.ts";
import { optionsOf } from "../core/replica/compose.ts";
import { median } from "../core/serving/distribution.ts";
import { type Law, require } from "./law.ts";

export const constantCost: Law = {
  name: "constant-cost",
  statement: "the cost of an operation does not grow with the number of entries",
};

/** A clock in milliseconds, which the measured plug-in does not read. */
export type Stopwatch = () => number;

/** Cost of an operation in a cache of `entries` entries. */
export interface Cost {
  readonly entries: number;
  /** Mean of `nsByMethod`. */
  readonly nsPerOperation: number;
  /** Median ns per call by method; `victim` includes the `remove` of its result. */
  readonly nsByMethod: Readonly<Record<string, number>>;
}

/** The growth of the cost of a policy's operations with the number of entries. */
export interface Growth {
  readonly costs: readonly Cost[];
  /** Cost grows as (number of entries) ^ `exponent`: 0 = constant, 1 = linear. */
  readonly exponent: number;
}

/** Numbers of entries or blocks at which costs are measured. */
export const sizes = [1_000, 4_000, 16_000, 64_000];

/** Largest exponent of a constant cost. CPU cache misses and logarithms give exponents below 0.4. */
export const mostExponent = 0.7;

const leastFillMs = 1000;

/**
 * Measures the policy alone, with increasing numbers of entries: entries are referenced, hit and released, victims are
 * evicted and replaced by new entries. Each number of entries is measured for `measureMs` after they were added; if
 * adding them takes too long, larger numbers are left out.
 */
export function measureGrowth(plugin: EvictionPlugin, now: Stopwatch, measureMs: number): Growth {
  // Warm-up: the code is not compiled yet.
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
export function requireConstantCost({ costs, exponent }: Growth): void {
  require(constantCost, exponent <= mostExponent, () => {
    const [few, many] = [costs[0], costs.at(-1)!];
    if (isShort(costs)) {
      const ms = (many.nsPerOperation / 1e6).toPrecision(2);
      return `an operation takes ${ms} ms with ${many.entries} entries, too slow to measure it with more`;
    }
    const [worst] = Object.entries(many.nsByMethod).sort(([, a], [, b]) => b - a);
    const factor = times(many.nsPerOperation / few.nsPerOperation);
    return (
      `an operation costs ${factor} as much with ${times(many.entries / few.entries)} as many entries; ` +
      `most of the time is spent in ${worst[0]}(). Does it iterate over all entries? (A Map or Set used as a queue does: ` +
      `iteration skips all entries deleted at its front.) byScore, a heap or a linked list does not`
    );
  });
}

export const times = (n: number) => `${n >= 10 ? Math.round(n) : n.toFixed(1)} ×`;

export const growsTooMuch = ({ exponent }: Growth) => exponent > mostExponent;

/** Whether it was too slow to measure ten times as many entries. */
const isShort = (costs: readonly Cost[]) => costs.at(-1)!.entries < 10 * sizes[0];

/** The largest exponent of the whole range and of its upper part; at least 1 if the range is too short. */
export function growthExponent(points: readonly { count: number; ns: number }[], isShort: boolean): number {
  const last = points.at(-1)!;
  const slopes = points
    .filter(({ count }) => count * 10 <= last.count)
    .map(({ count, ns }) => Math.log(last.ns / ns) / Math.log(last.count / count));
  return Math.max(isShort ? 1 : 0, ...slopes);
}

function measure(plugin: EvictionPlugin, entries: number, now: Stopwatch, measureMs: number): Cost {
  const fillMs = Math.max(leastFillMs, 6 * measureMs);
  const shelf = new PolicyDriver(plugin, entries);
  const begin = now();
  const spent: Record<string, number[]> = {};
  let stop = begin + fillMs;
  while (shelf.filled < entries && now() < stop) shelf.fill(Math.min(entries, shelf.filled + batch));
  stop = now() + measureMs;
  // A slow policy is measured in a few rounds only.
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

/** Entries per request. */
const batch = 64;
const blockTokens = 16;

/** Calls of one method in a round; `run` returns their number. */
interface MethodCalls {
  readonly method: string;
  readonly run: () => number;
}

/** Drives a policy without a cache; all its entries are evictable. */
class PolicyDriver {
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
      clock: { now: 0 },
      options: optionsOf("eviction policy", plugin),
      requests: new CacheRequests(),
      sessions: new ClientSessions(undefined),
      blockTokens: 16,
      capacityBlocks: entries,
      rules,
    });
  }

  /** One request publishes and releases entries `[filled, to)`. */
  fill(to: number): void {
    const request = this.#begin();
    for (let entry = this.filled; entry < to; entry++) this.#create(entry, request, entry - this.filled);
    this.#tick++;
    for (let entry = to - 1; entry >= this.filled; entry--) this.#release(entry);
    this.filled = to;
  }

  *round(): Generator<MethodCalls> {
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
