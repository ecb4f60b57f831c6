import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { audit } from "../../../core/cache/audit.ts";
import { Request } from "../../../core/cache/request.ts";
import { InvariantError } from "../../../core/errors.ts";
import type { Allocator, AllocatorPlugin, IndexPlugin, SchedulerContext } from "../../../core/plugins/index.ts";
import { type CacheConfig, createCache } from "../../../core/replica/compose.ts";
import { CacheReplay, type ReplayConfig } from "../../../core/replica/replay.ts";
import { Replica } from "../../../core/replica/replica.ts";
import { anyRules, supportedConfig } from "../../../laws/configs.ts";
import { traceOf, type Workload, workloads } from "../../../laws/workloads.ts";
import { allocatorRegistry } from "../../../policies/registry.ts";
import { allPlugins, isLong, runs } from "../../laws/all-plugins.ts";

// Every allocator against a model: a plain array of free blocks that determines which ones must be allocated.

/** Free blocks, in the order of the model. */
interface Model {
  free: number[];
  take(needed: number): number[];
  /** Releases one list, deepest block first. */
  give(blocks: readonly number[]): void;
  /** New blocks, in ascending order. */
  add(blocks: readonly number[]): void;
  /** The order in which they would be allocated one by one. */
  order(): number[];
  reset(order: readonly number[]): void;
}

/** The first in the array is allocated first. */
const inLine = (free: number[], give: (model: Model, blocks: readonly number[]) => void): Model => ({
  free,
  take: (needed) => free.splice(0, needed),
  give(blocks) {
    give(this, blocks);
  },
  add: (blocks) => void free.push(...blocks),
  order: () => [...free],
  reset: (order) => void free.splice(0, Number.POSITIVE_INFINITY, ...order),
});

/** Ordered by address; `placeOf` returns the index in the array of the blocks to allocate. */
const byAddress = (free: number[], placeOf: (free: readonly number[], needed: number) => number): Model => ({
  free,
  take: (needed) => free.splice(placeOf(free, needed), needed),
  give(blocks) {
    free.push(...blocks);
    free.sort((a, b) => a - b);
  },
  add: (blocks) => void free.push(...blocks),
  order: () => [...free],
  reset(order) {
    free.splice(0, Number.POSITIVE_INFINITY, ...order);
    free.sort((a, b) => a - b);
  },
});

/** Index of the first `needed` consecutive blocks, or of the lowest blocks if there are none. */
function firstRun(free: readonly number[], needed: number): number {
  const at = free.findIndex((block, i) => free[i + needed - 1] === block + needed - 1);
  return Math.max(at, 0);
}

const models: Record<string, (free: number[]) => Model> = {
  block: (free) => inLine(free, (model, blocks) => void model.free.unshift(...blocks)),
  "block-queue": (free) => inLine(free, (model, blocks) => void model.free.push(...blocks)),
  "block-list": (free) => ({
    free,
    take: (needed) => free.splice(free.length - needed, needed),
    give: (blocks) => void free.push(...[...blocks].reverse()),
    add: (blocks) => void free.push(...blocks),
    order: () => [...free].reverse(),
    reset: (order) => void free.splice(0, Number.POSITIVE_INFINITY, ...[...order].reverse()),
  }),
  token: (free) => byAddress(free, () => 0),
  "token-contiguous": (free) => byAddress(free, firstRun),
};

const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

/** Number of runs: a run ends at a block whose successor is not in the list. */
const rowsIn = (blocks: readonly number[]) => blocks.filter((block, i) => blocks[i + 1] !== block + 1).length;

function longestRun(free: readonly number[]): number {
  const sorted = [...free].sort((a, b) => a - b);
  let begin = 0;
  return sorted.reduce((longest, block, i) => {
    if (i > 0 && block !== sorted[i - 1] + 1) begin = i;
    return Math.max(longest, i - begin + 1);
  }, 0);
}

interface Step {
  readonly what: number;
  readonly which: number;
  readonly share: number;
}

let operations = 0;

/** An allocator in use, compared with its model. */
class Counter {
  readonly #allocator: Allocator;
  readonly #model: Model;
  #blockCount: number;
  /** Blocks that `reset` did not list. */
  #missing: number[] = [];
  /** Allocated lists of blocks. */
  #allocated: number[][] = [];
  readonly #allocations = { allocations: 0, blocks: 0, runs: 0 };

  constructor(name: string, blockCount: number) {
    this.#blockCount = blockCount;
    this.#allocator = allocatorRegistry.get(name).create(blockCount);
    this.#model = models[name](upTo(0, blockCount));
    this.check();
  }

  do({ what, which, share }: Step): void {
    operations++;
    const { length } = this.#model.free;
    if (what < 5) this.#allocate(Math.ceil((share * length) / 4));
    else if (what < 7) this.#allocate(Math.ceil(share * length));
    else if (what === 7) this.#allocate(Math.max(0, length - (which % 200)));
    else if (what < 12) this.#release(which, 1);
    else if (what < 16) this.#release(which, share);
    else if (what === 16) this.#grow(which);
    else if (what === 17) this.#allocateTooMany();
    else if (what === 18) this.#reset(which);
    else this.#releaseAll();
  }

  #allocate(needed: number): void {
    const owned = new Set([...this.#allocated.flat(), ...this.#missing]);
    const expected = this.#model.take(needed);
    const table = new Int32Array(needed + 2).fill(-7);
    this.#allocator.allocate(table, 1, needed + 1);
    expect([...table]).toEqual([-7, ...expected, -7]);
    expect(new Set(expected).size).toBe(needed);
    expect(expected.filter((block) => owned.has(block))).toEqual([]);
    if (needed === 0) return;
    this.#allocated.push(expected);
    this.#allocations.allocations++;
    this.#allocations.blocks += needed;
    this.#allocations.runs += rowsIn(expected);
  }

  /** Releases the last blocks of a list, or all of them, deepest first. */
  #release(which: number, share: number): void {
    if (this.#allocated.length === 0) return;
    const at = which % this.#allocated.length;
    const list = this.#allocated[at];
    const kept = list.length - Math.max(1, Math.round(share * list.length));
    const released = list.splice(kept).reverse();
    if (kept === 0) this.#allocated.splice(at, 1);
    this.#allocator.release(Int32Array.of(-7, ...released, -7), 1, released.length + 1);
    this.#model.give(released);
  }

  #releaseAll(): void {
    while (this.#allocated.length > 0) this.#release(0, 1);
  }

  #grow(which: number): void {
    if (this.#blockCount > 5000) return;
    const before = this.#blockCount;
    this.#blockCount += which % 3 === 0 ? before : 1 + (which % 40);
    this.#allocator.grow(this.#blockCount);
    this.#model.add(upTo(before, this.#blockCount));
  }

  /** Allocates more blocks than are free, which must throw. */
  #allocateTooMany(): void {
    const needed = this.#model.free.length + 1;
    const table = new Int32Array(needed).fill(-7);
    expect(() => this.#allocator.allocate(table, 0, needed)).toThrow(InvariantError);
    expect(table.every((block) => block === -7)).toBe(true);
  }

  /** Resets the allocator in some order; sometimes without block 0, which some engines never allocate. */
  #reset(which: number): void {
    this.#missing = which % 4 === 0 ? [0] : [];
    const order = upTo(this.#missing.length, this.#blockCount);
    const by = (block: number) => ((block + 1) * (2 * which + 1)) % 101;
    order.sort((a, b) => by(a) - by(b) || a - b);
    this.#allocator.reset(Int32Array.from(order));
    this.#model.reset(order);
    this.#allocated = [];
  }

  check(): void {
    const allocator = this.#allocator;
    const order = this.#model.order();
    expect(allocator.freeBlocks).toBe(order.length);
    expect([...allocator.free()]).toEqual(order);
    if (allocator.peek && order.length > 0) expect(allocator.peek()).toBe(order[0]);
    const all = [...order, ...this.#allocated.flat(), ...this.#missing].sort((a, b) => a - b);
    expect(all).toEqual(upTo(0, this.#blockCount));
    if (allocator.fragmentation)
      expect(allocator.fragmentation()).toEqual({ ...this.#allocations, largestFreeRun: longestRun(order) });
  }
}

const step: fc.Arbitrary<Step> = fc.record({
  what: fc.nat(19),
  which: fc.nat(1000),
  share: fc.double({ min: 0, max: 1, noNaN: true }),
});

/** Small pools, and pools whose bitmaps have two and three levels. */
const cases = fc.oneof(
  { weight: 40, arbitrary: play(1, 100, 120) },
  { weight: 2, arbitrary: play(900, 1200, 60) },
  { weight: 1, arbitrary: play(32_700, 32_900, 12) },
);

function play(min: number, max: number, steps: number) {
  return fc.record({
    blockCount: fc.integer({ min, max }),
    steps: fc.array(step, { maxLength: steps, size: "max" }),
  });
}

const leastOperations = 1_000_000;

describe.each(allocatorRegistry.all.map(({ name }) => [name]))("%s", (name) => {
  test("allocates the same blocks as a plain array of free blocks, and counts them correctly", () => {
    operations = 0;
    do {
      fc.assert(
        fc.property(cases, ({ blockCount, steps }) => {
          const counter = new Counter(name, blockCount);
          for (const one of steps) {
            counter.do(one);
            // Allocated blocks are compared each time; comparing all free blocks is slow in a large pool.
            if (blockCount < 2000) counter.check();
          }
          counter.check();
        }),
        { numRuns: runs(100) },
      );
    } while (isLong && operations < leastOperations);
    if (isLong) console.info(`${operations} operations of ${name}`);
  });

  test("grown before the first allocation, equals one created with that size", () => {
    const sizes = fc.tuple(fc.integer({ min: 1, max: 70 }), fc.integer({ min: 1, max: 70 }));
    const { create } = allocatorRegistry.get(name);
    fc.assert(
      fc.property(sizes, ([before, more]) => {
        const grown = create(before);
        grown.grow(before + more);
        expect([...grown.free()]).toEqual([...create(before + more).free()]);
      }),
      { numRuns: runs(50) },
    );
  });
});

/** Counts the blocks that the allocators of this plug-in allocate. */
function counted(allocator: AllocatorPlugin) {
  const out = { blocks: 0 };
  const create: AllocatorPlugin["create"] = (blockCount) => {
    const made = allocator.create(blockCount);
    const allocate = made.allocate.bind(made);
    made.allocate = (table, from, to) => {
      out.blocks += to - from;
      allocate(table, from, to);
    };
    return made;
  };
  return { out, plugin: { ...allocator, create } };
}

/** Overlapping requests that reserve the worst case: each is admitted as soon as it fits, and computed in chunks. */
function serveReserved(name: string, { index, rules, workload, blockUnits, blocks, chunks }: Reserved): number {
  const { out, plugin: allocator } = counted(allocatorRegistry.get(name));
  const blockTokens = workload.unitTokens * blockUnits;
  const config: ReplayConfig = supportedConfig({
    ...{ index, allocator, blockTokens, blocks, seed: 1 },
    ...{ eviction: allPlugins.reference.eviction, scheduler: allPlugins.reference.scheduler },
    // With stored logits, the copy of a shared last block is allocated after admission, and is not reserved.
    rules: { ...rules, reserve: "worst-case", "full-hit": "recompute-last" },
  });
  const [trace] = traceOf(workload);
  const columns = CacheReplay.blockKeys(config, trace);
  const cache = createCache({ ...config, namespaces: columns.plainKeys !== undefined });
  let turn = 0;
  const chunk = () => 1 + chunks[turn++ % chunks.length];
  let admissions = 0;
  const plan = (context: SchedulerContext) => {
    for (const sequence of [...context.running]) {
      const before = [out.blocks, sequence.blockCount];
      expect(context.schedule(sequence, chunk())).toBe(true);
      expect([out.blocks, sequence.blockCount]).toEqual(before);
    }
    for (let first = context.firstWaiting; first; first = context.firstWaiting) {
      const { inputTokens, maxOutputTokens } = first.request;
      const worst = Math.ceil((inputTokens + maxOutputTokens - 1) / blockTokens);
      if (worst > blocks) context.refuse(first, "it is longer than the cache");
      else if (!context.admit(first, chunk())) {
        expect(context.running.length).toBeGreaterThan(0);
        return;
      } else {
        admissions++;
        expect(first.blockCount).toBe(worst);
      }
    }
  };
  const replica = new Replica({ cache, generation: "step", scheduler: { plan } });
  workload.requests.forEach(({ id }) => void replica.submit(new Request(id, trace, id, columns), 0));
  for (let now = 1; !replica.isIdle; now++) {
    expect(now).toBeLessThan(5000);
    replica.commit(replica.plan(now), { durationNs: 1 }, now);
    audit(cache, replica.running);
  }
  return admissions;
}

interface Reserved {
  readonly index: IndexPlugin;
  readonly rules: CacheConfig["rules"];
  readonly workload: Workload;
  readonly blockUnits: number;
  readonly blocks: number;
  readonly chunks: readonly number[];
}

const reserved: fc.Arbitrary<Reserved> = fc.constantFrom(...allPlugins.indexes).chain((index) =>
  fc.record({
    index: fc.constant(index),
    rules: anyRules(index),
    workload: workloads({ related: true }),
    blockUnits: fc.integer({ min: 1, max: 3 }),
    blocks: fc.integer({ min: 4, max: 24 }),
    chunks: fc.array(fc.nat(9), { minLength: 1, maxLength: 9 }),
  }),
);

test.each(allocatorRegistry.all.map(({ name }) => [name]))(
  "with reserve=worst-case, %s allocates blocks at admission only, and an admitted request is never refused",
  (name) => {
    let admissions = 0;
    fc.assert(
      fc.property(reserved, (one) => {
        admissions += serveReserved(name, one);
      }),
      { numRuns: runs(100) },
    );
    expect(admissions).toBeGreaterThan(200);
  },
);
