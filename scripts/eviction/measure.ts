import type { EvictionPlugin, IndexPlugin } from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import { replayTrace } from "../../core/replica/replay.ts";
import { type BlockColumns, BlockKeys } from "../../core/trace/content.ts";
import type { OptionalColumns, Trace } from "../../core/trace/trace.ts";
import { ReuseIntervals } from "../../lab/bound/reuse-intervals.ts";
import { block as blockAllocator } from "../../policies/allocator/index.ts";
import { lru, unbounded } from "../../policies/eviction/index.ts";
import { hashTable, radixTree } from "../../policies/index/index.ts";
import { naive } from "../../policies/scheduler/index.ts";

/** Capacities of the figures, as shares of a trace's distinct blocks. */
export const shares: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.25, 0.5];
const seeds = [1, 2, 3, 4, 5];

/** Columns of signals without which a policy is not run: it would be LRU. */
const signals: Readonly<Record<string, keyof OptionalColumns>> = {
  continuum: "tool",
  kvflow: "nextUseSteps",
  "session-refs": "sessionEnd",
};

/** The block hit ratios of a policy, by capacity. */
export interface Curve {
  readonly policy: string;
  /** Hash table, `free-order=reverse`; the mean over the seeds if the policy draws random numbers. */
  readonly ratio: readonly number[];
  /** Least and largest hit ratio over both values of `free-order` and all seeds. */
  readonly least: readonly number[];
  readonly most: readonly number[];
  /** Radix tree, which evicts only leaves; otherwise as `ratio`. */
  readonly inTree: readonly number[];
}

/** All curves of a trace. */
export interface Measured {
  readonly requests: number;
  readonly promptBlocks: number;
  readonly distinctBlocks: number;
  readonly blockTokens: number;
  /** Capacities in blocks. */
  readonly capacities: readonly number[];
  /** By capacity: requests that do not fit, which are refused. */
  readonly tooLong: readonly number[];
  /** By capacity: a hit ratio that no policy exceeds (docs/bounds.md). */
  readonly bound: readonly number[];
  /** Hit ratio of an unlimited cache. */
  readonly unlimited: number;
  readonly curves: readonly Curve[];
  /** Policies that were not run because the trace does not have their signals. */
  readonly withoutSignal: readonly string[];
}

/** Replays a trace with every policy at every capacity; `begin` is called with the name of each policy before its replays. */
export function measure(
  trace: Trace,
  blockTokens: number,
  policies: readonly EvictionPlugin[],
  begin: (policy: string) => void = () => {},
): Measured {
  const blocks = new BlockKeys({ unitTokens: trace.unitTokens, blockTokens }).of(trace);
  const distinctBlocks = new Set(blocks.keys).size;
  const capacities = shares.map((share) => Math.max(1, Math.round(share * distinctBlocks)));
  const promptBlocks = blocks.promptBlocks.reduce((sum, count) => sum + count, 0);
  const lacksSignal = ({ name }: EvictionPlugin) => name in signals && trace.optional[signals[name]] === undefined;
  const bounds = capacities.map((capacity) => boundOf(trace, blocks, capacity));
  const replays = new Replays(trace, blocks);
  return {
    ...{ requests: trace.requestCount, promptBlocks, distinctBlocks, blockTokens, capacities },
    tooLong: bounds.map(({ tooLong }) => tooLong),
    bound: bounds.map(({ hitBlocks }) => hitBlocks / promptBlocks),
    unlimited: replays.hitRatio({ index: hashTable, eviction: unbounded, capacity: distinctBlocks }).ratio,
    curves: policies
      .filter((policy) => !policy.unlimited && !lacksSignal(policy))
      .map((policy) => {
        begin(policy.name);
        return replays.curve(policy, capacities);
      }),
    withoutSignal: policies.filter(lacksSignal).map(({ name }) => name),
  };
}

/** The most hit blocks that any policy can have, and the requests that do not fit in the cache. */
function boundOf(trace: Trace, blocks: BlockColumns, capacity: number): { hitBlocks: number; tooLong: number } {
  const { blockTokens } = blocks;
  const cache = { blocks: capacity, blockTokens, rules: rulesFor(hashTable, {}) };
  const intervals = new ReuseIntervals(cache, { itemTokens: blockTokens, isPartial: false });
  intervals.add(trace, blocks);
  return { hitBlocks: intervals.bound("block").bound, tooLong: intervals.tooLong };
}

interface CacheChoice {
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly capacity: number;
  readonly freeOrder?: Rules["free-order"];
  readonly seed?: number;
}

class Replays {
  readonly #trace: Trace;
  readonly #blocks: BlockColumns;

  constructor(trace: Trace, blocks: BlockColumns) {
    this.#trace = trace;
    this.#blocks = blocks;
  }

  curve(policy: EvictionPlugin, capacities: readonly number[]): Curve {
    const points = capacities.map((capacity) => {
      const reverse = this.#ratios({ index: hashTable, eviction: policy, capacity });
      const forward = this.#ratios({ index: hashTable, eviction: policy, capacity, freeOrder: "forward" });
      const inTree = this.#ratios({ index: radixTree, eviction: policy, capacity });
      const all = [...reverse, ...forward];
      return { ratio: mean(reverse), least: Math.min(...all), most: Math.max(...all), inTree: mean(inTree) };
    });
    return {
      policy: policy.name,
      ratio: points.map(({ ratio }) => ratio),
      least: points.map(({ least }) => least),
      most: points.map(({ most }) => most),
      inTree: points.map(({ inTree }) => inTree),
    };
  }

  /** One hit ratio, or one for each seed if the policy draws random numbers. */
  #ratios(choice: CacheChoice): number[] {
    const first = this.hitRatio({ ...choice, seed: seeds[0] });
    if (!first.isSeeded) return [first.ratio];
    return [first.ratio, ...seeds.slice(1).map((seed) => this.hitRatio({ ...choice, seed }).ratio)];
  }

  hitRatio({ index, eviction, capacity, freeOrder = "reverse", seed = 1 }: CacheChoice) {
    let isSeeded = false;
    const observed: EvictionPlugin = {
      ...eviction,
      create: (context) => {
        const { random } = context;
        const watched = Object.defineProperty({ ...context }, "random", {
          get() {
            isSeeded = true;
            return random;
          },
        });
        return eviction.create(watched);
      },
    };
    const config = {
      ...{ index, eviction: observed, allocator: blockAllocator, scheduler: naive, seed },
      ...{ blocks: capacity, blockTokens: this.#blocks.blockTokens, rules: { "free-order": freeOrder } },
    };
    const { counters } = replayTrace(this.#trace, config, this.#blocks).cache;
    return { ratio: counters.hitBlocks / counters.lookupBlocks, isSeeded };
  }
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** By capacity: the share of the gap between LRU and the bound that these hit ratios close; undefined: there is hardly a gap. */
export function gapClosed({ curves, bound }: Measured, ratios: readonly number[]): (number | undefined)[] {
  const { ratio } = curves.find(({ policy }) => policy === lru.name)!;
  return ratios.map((value, i) =>
    bound[i] - ratio[i] < leastGap ? undefined : (value - ratio[i]) / (bound[i] - ratio[i]),
  );
}

/** Smaller gaps, in hit ratio, are not divided by. */
export const leastGap = 0.005;

/** A curve with all policies that have the same hit ratios in every run. */
export interface Group extends Curve {
  readonly policies: readonly string[];
}

/** Groups the policies whose hit ratios are all equal, in the order of their first names; LRU is the first of its group. */
export function grouped(curves: readonly Curve[]): Group[] {
  const groups = new Map<string, Curve[]>();
  for (const curve of curves) {
    const { policy, ...ratios } = curve;
    const key = JSON.stringify(ratios);
    groups.set(key, [...(groups.get(key) ?? []), curve]);
  }
  return [...groups.values()].map((equal) => {
    const names = equal.map(({ policy }) => policy);
    const policies = names.includes(lru.name) ? [lru.name, ...names.filter((name) => name !== lru.name)] : names;
    return { ...equal[0], policy: policies[0], policies };
  });
}
