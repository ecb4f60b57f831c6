import type { IndexPlugin, PrefixIndex } from "../core/plugins/index.ts";
import { CacheReplay, type ReplayConfig } from "../core/replica/replay.ts";
import type { Trace } from "../core/trace/trace.ts";
import { growthExponent, median, mostExponent, type Stopwatch, sizes, times } from "./cost.ts";
import { type Law, require } from "./law.ts";
import type { Parts } from "./parts.ts";

export const cheapIndex: Law = {
  name: "cheap",
  says: "what a block of a prompt costs does not grow with the number of cached blocks",
};

/** Prompts that share half of themselves with an earlier one, or that all part behind their first block. */
export type Shape = "prompts" | "siblings";

/** What a block of a prompt costs in a full cache of so many blocks, all that the cache does included. */
export interface BlockCost {
  readonly blocks: number;
  readonly nsPerBlock: number;
}

export interface ShapeGrowth {
  readonly shape: Shape;
  readonly costs: readonly BlockCost[];
  /** Cost grows as the number of blocks to the power of this: 0 = not at all, 1 = in proportion. */
  readonly exponent: number;
  /** Where most of the time is spent, if it grows too much. */
  readonly dearest: string | undefined;
}

/** Each number of blocks has to come in within this time, or is not measured. */
const mostFillMs = 500;
const mostMeasureMs = 120;

/** Each number of blocks is measured so often in turn, and the lowest figure counts: a busy machine only adds. */
const leastRounds = 2;
const mostRounds = 4;
const enoughMs = 1_000;
const warmUpMs = 100;

/**
 * Drives the index in real caches of ever more blocks, which are full, so that every request evicts. Once it is found
 * too dear in one shape, the other is not tried.
 */
export function measureIndex(
  plugin: IndexPlugin,
  parts: Parts,
  now: Stopwatch,
  measureMs: number,
): readonly ShapeGrowth[] {
  const ms = Math.min(measureMs, mostMeasureMs);
  const measured: ShapeGrowth[] = [];
  for (const shape of ["prompts", "siblings"] as const) {
    const growth = measureShape(plugin, parts, shape, now, ms);
    if (!isDear(growth)) {
      measured.push(growth);
      continue;
    }
    measured.push({ ...growth, dearest: dearestOf(plugin, parts, shape, growth.costs.at(-1)!.blocks, now, ms) });
    break;
  }
  return measured;
}

/** @throws LawBroken if the cost grows with the number of blocks. */
export function requireCheapIndex(growths: readonly ShapeGrowth[]): void {
  for (const growth of growths) require(cheapIndex, !isDear(growth), () => whatIsDear(growth));
}

const isDear = ({ exponent }: ShapeGrowth) => exponent > mostExponent;

function whatIsDear({ shape, costs, dearest }: ShapeGrowth): string {
  const [few, many] = [costs[0], costs.at(-1)!];
  const spent = dearest === undefined ? "" : `; most of it is spent in ${dearest}`;
  if (isShort(costs)) {
    const ms = (many.nsPerBlock / 1e6).toPrecision(2);
    return `a block costs ${ms} ms in a cache of ${many.blocks}: that is too slow to try it with more${spent}`;
  }
  const dearer = times(many.nsPerBlock / few.nsPerBlock);
  const more = times(many.blocks / few.blocks);
  return shape === "prompts"
    ? `a block costs ${dearer} as much in a cache with ${more} as many blocks: it grows with the number of cached blocks` +
        `${spent}. Does it go through all blocks or entries? A map or an array by content or block does not`
    : `a block costs ${dearer} as much where ${more} as many prompts part in one block: it grows with the number of ` +
        `siblings${spent}. Does it go through all that extends a block? A map by content does not`;
}

/** Whether it was too slow for figures over a range of ten times as many blocks. */
const isShort = (costs: readonly BlockCost[]) => costs.at(-1)!.blocks < 10 * sizes[0];

function measureShape(plugin: IndexPlugin, parts: Parts, shape: Shape, now: Stopwatch, measureMs: number): ShapeGrowth {
  warmUp(plugin, parts, shape, now);
  const lowest = new Map<number, number>();
  let tried: readonly number[] = sizes;
  const stop = now() + enoughMs;
  for (let round = 0; round < mostRounds && (round < leastRounds || now() < stop); round++) {
    for (const blocks of tried) {
      const cache = new FullCache(plugin, parts, shape, blocks);
      if (!cache.fill(now, mostFillMs) && blocks !== sizes[0]) {
        if (round === 0) tried = sizes.filter((size) => size < blocks);
        break;
      }
      lowest.set(blocks, Math.min(lowest.get(blocks) ?? Number.POSITIVE_INFINITY, cache.measure(now, measureMs)));
    }
  }
  const costs = [...lowest].map(([blocks, nsPerBlock]) => ({ blocks, nsPerBlock }));
  const points = costs.map(({ blocks, nsPerBlock }) => ({ count: blocks, ns: nsPerBlock }));
  return { shape, costs, exponent: growthExponent(points, isShort(costs)), dearest: undefined };
}

/** The first calls are slow whatever the index does, because its code is not compiled yet. */
function warmUp(plugin: IndexPlugin, parts: Parts, shape: Shape, now: Stopwatch): void {
  const stop = now() + warmUpMs;
  while (now() < stop) new FullCache(plugin, parts, shape, sizes[0]).measure(now, warmUpMs);
}

/** The method or property of the index in which most of the time goes by, what it tells the cache included. */
function dearestOf(
  plugin: IndexPlugin,
  parts: Parts,
  shape: Shape,
  blocks: number,
  now: Stopwatch,
  measureMs: number,
): string | undefined {
  const spent = new Map<string, number>();
  const cache = new FullCache(timed(plugin, spent, now), parts, shape, blocks);
  cache.fill(now, mostFillMs);
  spent.clear();
  cache.measure(now, measureMs);
  return [...spent].sort(([, a], [, b]) => b - a)[0]?.[0];
}

/** The same index, and how long each of its methods took in all. */
function timed(plugin: IndexPlugin, spent: Map<string, number>, now: Stopwatch): IndexPlugin {
  const watch = <Result>(name: string, call: () => Result): Result => {
    const start = now();
    try {
      return call();
    } finally {
      spent.set(name, (spent.get(name) ?? 0) + now() - start);
    }
  };
  return {
    ...plugin,
    create(context, blockCount) {
      const inner = plugin.create(context, blockCount);
      return new Proxy(inner, {
        get(_, name: keyof PrefixIndex & string) {
          const value: unknown = watch(name, () => Reflect.get(inner, name, inner));
          if (typeof value !== "function") return value;
          return (...args: unknown[]) => watch(`${name}()`, () => value.apply(inner, args));
        },
        set: (_, name, value) => Reflect.set(inner, name, value),
      });
    },
  };
}

/** Requests that are served to get one figure; the median of several is taken. */
const chunkRequests = 120;
const chunks = 11;

class FullCache {
  readonly #replay: CacheReplay;
  readonly #trace: Trace;
  readonly #columns: ReturnType<typeof CacheReplay.blockKeys>;
  /** Requests until the cache is full. */
  readonly #filling: number;
  #served = 0;

  constructor(index: IndexPlugin, { known, allocators }: Parts, shape: Shape, blocks: number) {
    const { eviction, scheduler } = known;
    const [allocator] = allocators;
    this.#filling = (shape === "prompts" ? Math.ceil(blocks / 18) : blocks) + 6;
    const requests = this.#filling + chunks * chunkRequests;
    this.#trace = shape === "prompts" ? pairedPrompts(requests, blocks) : siblings(requests, blocks, this.#filling);
    const { unitTokens: blockTokens } = this.#trace;
    const config: ReplayConfig = { index, eviction, allocator, scheduler, blockTokens, blocks, rules: {}, seed: 1 };
    this.#columns = CacheReplay.blockKeys(config, this.#trace);
    this.#replay = new CacheReplay(config);
  }

  /** Whether the cache became full in time. */
  fill(now: Stopwatch, mostMs: number): boolean {
    const stop = now() + mostMs;
    while (this.#served < this.#filling && now() < stop) this.#serve(Math.min(8, this.#filling - this.#served));
    return this.#served === this.#filling;
  }

  /** Nanoseconds a block of a prompt. */
  measure(now: Stopwatch, mostMs: number): number {
    const ns: number[] = [];
    const stop = now() + mostMs;
    for (let chunk = 0; chunk < chunks && (chunk < 3 || now() < stop); chunk++) {
      const start = now();
      const from = this.#served;
      while (this.#served - from < chunkRequests && now() - start < mostMs / 6) this.#serve(4);
      const { keyStart } = this.#trace;
      ns.push(((now() - start) * 1e6) / (keyStart[this.#served] - keyStart[from]));
    }
    return median(ns);
  }

  #serve(requests: number): void {
    this.#replay.feed(this.#trace, this.#columns, this.#served, this.#served + requests);
    this.#served += requests;
  }
}

/** What was evicted long ago comes again, so that there are so many contents for each block of the cache. */
const contentsPerBlock = 3;

/** Prompts of 24 blocks; every second one shares 12 with one of the fifty before it. */
function pairedPrompts(requests: number, blocks: number): Trace {
  const different = 2 * Math.ceil((contentsPerBlock * blocks) / 36);
  const keys = new Uint32Array(24 * requests);
  for (let r = 0; r < requests; r++) {
    const own = r % different;
    const shared = own % 2 === 1 ? (own - 1 - 2 * ((own * 7) % 25) + different) % different : own;
    for (let i = 0; i < 24; i++) keys[24 * r + i] = 24 * (i < 12 ? shared : own) + i;
  }
  return contentTrace(keys, 24, 24 * different);
}

/** Prompts of two blocks, of which the first is always the same; from request `full` on every second one is known. */
function siblings(requests: number, blocks: number, full: number): Trace {
  const different = contentsPerBlock * blocks;
  const keys = new Uint32Array(2 * requests);
  let fresh = 0;
  for (let r = 0; r < requests; r++) {
    const known = r > full && r % 2 === 1;
    keys[2 * r + 1] = known ? keys[2 * (r - 1 - 2 * ((r * 7) % 25)) + 1] : 1 + (fresh++ % different);
  }
  return contentTrace(keys, 2, 1 + different);
}

/** A trace whose prompts all have so many blocks of 16 tokens. */
function contentTrace(keys: Uint32Array, blocks: number, distinctKeys: number): Trace {
  const requestCount = keys.length / blocks;
  const one = new Uint32Array(requestCount).fill(1);
  return {
    unitTokens: 16,
    requestCount,
    arrivalNs: new Float64Array(requestCount),
    inputTokens: new Uint32Array(requestCount).fill(16 * blocks),
    outputTokens: one,
    maxOutputTokens: one,
    keys,
    keyStart: Float64Array.from({ length: requestCount + 1 }, (_, r) => r * blocks),
    distinctKeys,
    optional: {},
  };
}
