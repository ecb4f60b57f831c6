import type { IndexPlugin, PrefixIndex } from "../core/plugins/index.ts";
import { CacheReplay, type ReplayConfig } from "../core/replica/replay.ts";
import { median } from "../core/serving/distribution.ts";
import type { Trace } from "../core/trace/trace.ts";
import { growthExponent, mostExponent, type Stopwatch, sizes, times } from "./cost.ts";
import { type Law, require } from "./law.ts";
import type { PluginSet } from "./plugin-set.ts";

export const constantIndexCost: Law = {
  name: "constant-cost",
  statement: "the cost per prompt block does not grow with the number of cached blocks",
};

/** `prompts`: half of a prompt is shared with an earlier one. `siblings`: all prompts diverge after the first block. */
export type Shape = "prompts" | "siblings";

/** Cost per prompt block in a full cache of `blocks` blocks, including the cost of the cache itself. */
export interface BlockCost {
  readonly blocks: number;
  readonly nsPerBlock: number;
}

/** The growth of an index's cost per block with the number of blocks. */
export interface ShapeGrowth {
  readonly shape: Shape;
  readonly costs: readonly BlockCost[];
  /** Cost grows as (number of blocks) ^ `exponent`: 0 = constant, 1 = linear. */
  readonly exponent: number;
  /** The method in which most of the time is spent, if the cost grows too much. */
  readonly costliestMethod: string | undefined;
}

/** A number of blocks that cannot be filled within this time is not measured. */
const mostFillMs = 500;
const mostMeasureMs = 120;

/** Each number of blocks is measured several times and the minimum counts, as other load only adds time. */
const leastRounds = 2;
const mostRounds = 4;
const enoughMs = 1_000;
const warmUpMs = 100;

/**
 * Measures the index in full caches with increasing numbers of blocks, in which every request evicts. If the cost grows
 * too much with one shape of prompts, the other is not measured.
 */
export function measureIndex(
  plugin: IndexPlugin,
  parts: PluginSet,
  now: Stopwatch,
  measureMs: number,
): readonly ShapeGrowth[] {
  const ms = Math.min(measureMs, mostMeasureMs);
  const measured: ShapeGrowth[] = [];
  for (const shape of ["prompts", "siblings"] as const) {
    const growth = measureShape(plugin, parts, shape, now, ms);
    if (!growsTooMuch(growth)) {
      measured.push(growth);
      continue;
    }
    measured.push({
      ...growth,
      costliestMethod: costliestMethodOf(plugin, parts, shape, growth.costs.at(-1)!.blocks, now, ms),
    });
    break;
  }
  return measured;
}

/** @throws LawBroken if the cost grows with the number of blocks. */
export function requireConstantIndexCost(growths: readonly ShapeGrowth[]): void {
  for (const growth of growths) require(constantIndexCost, !growsTooMuch(growth), () => growthMessage(growth));
}

const growsTooMuch = ({ exponent }: ShapeGrowth) => exponent > mostExponent;

function growthMessage({ shape, costs, costliestMethod }: ShapeGrowth): string {
  const [few, many] = [costs[0], costs.at(-1)!];
  const spent = costliestMethod === undefined ? "" : `; most of it is spent in ${costliestMethod}`;
  if (isShort(costs)) {
    const ms = (many.nsPerBlock / 1e6).toPrecision(2);
    return `a block takes ${ms} ms in a cache of ${many.blocks} blocks, too slow to measure it with more${spent}`;
  }
  const factor = times(many.nsPerBlock / few.nsPerBlock);
  const more = times(many.blocks / few.blocks);
  return shape === "prompts"
    ? `a block costs ${factor} as much in a cache with ${more} as many blocks${spent}. Does it iterate over all blocks or ` +
        `entries? A map or an array by content id or block does not`
    : `a block costs ${factor} as much where ${more} as many prompts diverge after one block${spent}. Does it iterate over ` +
        `all children of a block? A map by content id does not`;
}

/** Whether it was too slow to measure ten times as many blocks. */
const isShort = (costs: readonly BlockCost[]) => costs.at(-1)!.blocks < 10 * sizes[0];

function measureShape(
  plugin: IndexPlugin,
  parts: PluginSet,
  shape: Shape,
  now: Stopwatch,
  measureMs: number,
): ShapeGrowth {
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
  return { shape, costs, exponent: growthExponent(points, isShort(costs)), costliestMethod: undefined };
}

/** Runs the index until its code is compiled. */
function warmUp(plugin: IndexPlugin, parts: PluginSet, shape: Shape, now: Stopwatch): void {
  const stop = now() + warmUpMs;
  while (now() < stop) new FullCache(plugin, parts, shape, sizes[0]).measure(now, warmUpMs);
}

/** The method or property of the index in which most of the time is spent, including its calls of the host. */
function costliestMethodOf(
  plugin: IndexPlugin,
  parts: PluginSet,
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

/** Wraps the index and sums up the time of each of its methods in `spent`. */
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

/** Requests per sample, and number of samples, of which the median is taken. */
const chunkRequests = 120;
const chunks = 11;

class FullCache {
  readonly #replay: CacheReplay;
  readonly #trace: Trace;
  readonly #columns: ReturnType<typeof CacheReplay.blockKeys>;
  /** Number of requests that fill the cache. */
  readonly #filling: number;
  #served = 0;

  constructor(index: IndexPlugin, { reference: known, allocators }: PluginSet, shape: Shape, blocks: number) {
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

  /** Fills the cache; returns whether it was full in time. */
  fill(now: Stopwatch, mostMs: number): boolean {
    const stop = now() + mostMs;
    while (this.#served < this.#filling && now() < stop) this.#serve(Math.min(8, this.#filling - this.#served));
    return this.#served === this.#filling;
  }

  /** Nanoseconds per prompt block. */
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

/** Distinct contents per block of the cache; contents repeat after their eviction. */
const contentsPerBlock = 3;

/** Prompts of 24 blocks; every second one shares 12 blocks with one of the 50 before it. */
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

/** Prompts of two blocks with the same first block; from request `full` on, every second prompt is a repeated one. */
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

/** A trace whose prompts all have `blocks` blocks of 16 tokens. */
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
