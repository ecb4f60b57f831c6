import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { parseSide } from "../../cli/fuzz/sides.ts";
import { hole } from "../../core/cache/block-table.ts";
import type { IndexPlugin, Match, PrefixIndex, SchedulerPlugin } from "../../core/plugins/index.ts";
import type { Executor } from "../../engine/executor.ts";
import { type BeatSearchResult, everyTrace, searchBeaten, total } from "../../lab/fuzz/beat.ts";
import { caching } from "../../lab/fuzz/caching.ts";
import { casesOf } from "../../lab/fuzz/cases.ts";
import { Engines } from "../../lab/fuzz/engines.ts";
import { eventLog } from "../../lab/fuzz/event-log.ts";
import { fastForward } from "../../lab/fuzz/fast-forward.ts";
import { indexes } from "../../lab/fuzz/indexes.ts";
import type { FuzzKind } from "../../lab/fuzz/kinds.ts";
import { readSaved, saveFinding } from "../../lab/fuzz/saved.ts";
import { checkCase, search } from "../../lab/fuzz/search.ts";
import type { FuzzParts } from "../../lab/fuzz/setup.ts";
import { sideOf } from "../../lab/fuzz/sides.ts";
import { simEngine } from "../../lab/fuzz/sim-engine.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { allPlugins } from "../laws/all-plugins.ts";
import { ForwardingExecutor } from "./serving.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-fuzz-"));
const engines = new Engines(folder);
const opened = [engines];
afterAll(async () => {
  for (const each of opened) await each.close();
  rmSync(folder, { recursive: true });
});

const parts: FuzzParts = { ...allPlugins, presets: presetRegistry.all };

test("simulator and engine make the same decisions in random cases, which contain every kind of decision", async () => {
  const { cases, refused, decisions, finding } = await search(simEngine(engines), parts, { cases: 80, seed: 3 });
  expect(finding).toBeUndefined();
  expect(cases + refused).toBe(80);
  expect(cases).toBeGreaterThan(70);
  // Only simulated replicas transfer KV to another one and draft tokens.
  const simulated = ["send", "receive", "trim"];
  const missing = Object.entries(decisions).filter(([kind, count]) => count === 0 && !simulated.includes(kind));
  expect(missing).toEqual([]);
});

test("the engine has the same outputs with and without its cache in random cases", async () => {
  const { cases, decisions, finding } = await search(caching(engines), parts, { cases: 60, seed: 2 });
  expect(finding).toBeUndefined();
  expect(cases).toBeGreaterThan(50);
  for (const made of ["hit", "copy", "preempt", "swapIn"]) expect(decisions[made], made).toBeGreaterThan(0);
});

test("repeated steps are equal to planned ones in random cases", async () => {
  const { cases, decisions, finding } = await search(fastForward, parts, { cases: 100, seed: 1 });
  expect(finding).toBeUndefined();
  expect(cases).toBe(100);
  expect(decisions["step at once"]).toBeGreaterThan(500);
});

test("the state read from the event log is that of the cache in random cases", async () => {
  const { cases, decisions, finding } = await search(eventLog, parts, { cases: 200, seed: 1 });
  expect(finding).toBeUndefined();
  expect(cases).toBe(200);
  expect(decisions["operation"]).toBeGreaterThan(300);
});

test("hash table, block trie and radix tree make the same decisions in random cases", async () => {
  const { cases, decisions, finding } = await search(indexes, parts, { cases: 300, seed: 1 });
  expect(finding).toBeUndefined();
  expect(cases).toBe(300);
  for (const count of Object.values(decisions)) expect(count).toBeGreaterThan(100);
});

/** Every second instance runs one request at a time, so that those of engine and simulator differ. */
function everySecondOther(scheduler: SchedulerPlugin): SchedulerPlugin {
  let made = 0;
  return {
    ...scheduler,
    create: (given) => {
      const narrow = made++ % 2 === 1;
      return scheduler.create(narrow ? { ...given, options: { ...given.options, "max-num-seqs": 1 } } : given);
    },
  };
}

/** An index with changed methods. */
const changed = (index: IndexPlugin, change: (real: PrefixIndex) => void): IndexPlugin => ({
  ...index,
  create: (context, blockCount) => {
    const real = index.create(context, blockCount);
    change(real);
    return real;
  },
});

/** An index with a changed match. */
const finding = (index: IndexPlugin, otherwise: (table: Int32Array, found: Match) => void): IndexPlugin =>
  changed(index, (real) => {
    const match = real.match.bind(real);
    real.match = (keys, start, count, table, found) => {
      match(keys, start, count, table, found);
      otherwise(table, found);
    };
  });

/** Exchanges the first two of three matched blocks. */
const swapping = (index: IndexPlugin) =>
  finding(index, (table, { blocks }) => {
    if (blocks > 2) [table[0], table[1]] = [table[1], table[0]];
  });

/** Omits the second of two matched blocks. */
const omittingSecondBlock = (index: IndexPlugin) =>
  finding(index, (table, found) => {
    if (found.blocks !== 2) return;
    found.blocks--;
    found.absent++;
    table[1] = hole;
  });

/** Copies no blocks but the first one. */
class CopySkippingExecutor extends ForwardingExecutor {
  override copyBlocks(pairs: Parameters<Executor["copyBlocks"]>[0]): Promise<void> {
    return super.copyBlocks(pairs.filter(({ source }) => source === 0));
  }
}

class CarelessEngines extends Engines {
  override async executor(blockTokens: number): Promise<Executor> {
    return new CopySkippingExecutor(await super.executor(blockTokens));
  }
}

/** `PrefixIndex.drop` does nothing. */
const withoutDrop = (index: IndexPlugin): IndexPlugin =>
  changed(index, (real) => {
    real.drop = () => {};
  });

/** Declares every plan valid until its inputs change, although the scheduler's own state changes the next one. */
const alwaysValidPlans = (scheduler: SchedulerPlugin): SchedulerPlugin => ({
  ...scheduler,
  create: (given) => {
    const real = scheduler.create(given);
    const plan = real.plan.bind(real);
    real.plan = (context) => {
      plan(context);
      return "until-change";
    };
    return real;
  },
});

const replacing = <P extends { readonly name: string }>(all: readonly P[], name: string, by: (part: P) => P): P[] =>
  all.map((part) => (part.name === name ? by(part) : part));

describe("planted faults are found, and their cases shrunk", () => {
  test("a scheduler that is not deterministic", async () => {
    const broken = { ...parts, schedulers: replacing(parts.schedulers, "fcfs-chunked", everySecondOther) };
    const { finding } = await search(simEngine(engines), broken, { cases: 200, seed: 1 });
    expect(finding?.category).toBe("divergence");
    expect(finding?.trace.requestCount).toBe(2);
    expect(finding?.setup).toMatchObject({ index: "hash-table", eviction: "lru", rules: {}, schedulerOptions: {} });
    expect(finding?.message).toMatch(/^after 0 steps and \d+ events: engine /);
  });

  test("an index that exchanges two blocks; the saved case is reproduced by its name", async () => {
    const broken = { ...parts, indexes: replacing(parts.indexes, "block-trie", swapping) };
    const { finding } = await search(indexes, broken, { cases: 200, seed: 1 });
    expect(finding?.setup.index).toBe("block-trie");
    expect(finding?.trace.requestCount).toBeLessThanOrEqual(3);
    expect(Math.max(...finding!.trace.inputTokens) / finding!.setup.blockTokens).toBe(3);
    const saved = await saveFinding(folder, finding!, 1);
    const { trace, setup, operations } = await readSaved(folder, saved.name);
    const { trace: mine, setup: its, operations: acts } = finding!;
    expect({ trace, setup, operations }).toEqual({ trace: mine, setup: its, operations: acts });
    expect((await checkCase(indexes, { trace, setup, operations }, broken))?.failure?.message).toBe(finding?.message);
    expect((await checkCase(indexes, { trace, setup, operations }, parts))?.failure).toBeUndefined();
  });

  const carelessEngines = new CarelessEngines(folder);
  opened.push(carelessEngines);
  const faults: [fault: string, kind: FuzzKind, broken: FuzzParts, message: RegExp, sound?: FuzzKind][] = [
    [
      "an engine that does not execute copies",
      caching(carelessEngines),
      parts,
      /^the logits of token \d+ of request \d+ differ from those without a cache$/,
      caching(engines),
    ],
    [
      "an engine that does not execute copies, by its contents",
      simEngine(carelessEngines),
      parts,
      /^after step \d+ the (keys|values) of token \d+ of request \d+ in layer 0, block \d+ differ from recomputed ones$/,
      simEngine(engines),
    ],
    [
      "a scheduler that declares every plan valid although its own state changes the next one",
      fastForward,
      { ...parts, schedulers: parts.schedulers.map(alwaysValidPlans) },
      /^after \d+ steps and \d+ events: at once .*, one by one /,
    ],
    [
      "an index that omits a block",
      eventLog,
      { ...parts, indexes: replacing(parts.indexes, "hash-table", omittingSecondBlock) },
      /^request 1 has 1 hits, 2 by the log$/,
    ],
    [
      "an index that keeps deleted blocks",
      eventLog,
      { ...parts, indexes: replacing(parts.indexes, "hash-table", withoutDrop) },
      /^delete returned "deleted", but by the log it is still cached$/,
    ],
  ];
  test.each(faults)("%s; the saved case is reproduced by its name", async (_, kind, broken, message, sound = kind) => {
    const { finding } = await search(kind, broken, { cases: 300, seed: 1 });
    expect(finding?.message).toMatch(message);
    expect(finding!.trace.requestCount + finding!.operations.length).toBeLessThanOrEqual(4);
    const saved = await saveFinding(folder, finding!, 1);
    const { trace, setup, operations } = await readSaved(folder, saved.name);
    expect((await checkCase(kind, { trace, setup, operations }, broken))?.failure?.message).toBe(finding?.message);
    expect((await checkCase(sound, { trace, setup, operations }, parts))?.failure).toBeUndefined();
  });
});

test.each([1, 2])("a trace in units of %i is saved and read back unchanged", async (unitTokens) => {
  const cases = fc.sample(casesOf["sim-engine"](parts), { numRuns: 30, seed: 1 });
  for (const one of cases.filter(({ trace }) => trace.unitTokens === unitTokens)) {
    const saved = await saveFinding(folder, { ...one, kind: indexes, category: "", message: "" }, 1);
    const { trace, setup, operations } = await readSaved(folder, saved.file);
    expect({ trace, setup, operations }).toEqual(one);
  }
});

describe("the smallest trace on which one policy has fewer hits than another", () => {
  const options = { cases: 4000, seed: 1, stopped: () => false, advance: async () => {} };

  /** Prompts in letters, and the number of blocks. */
  async function smallest(first: string, second: string, cases = options.cases) {
    const searched = await searchBeaten([await sideOf(parseSide(first), 1), await sideOf(parseSide(second), 1)], {
      ...options,
      cases,
    });
    const { finding, isSmallest } = searched;
    if (finding === undefined) return searched;
    const prompts = finding.prompts.map((prompt) => prompt.map((block) => "abcdefgh"[block - 1]).join(""));
    return { prompts: prompts.join(" "), blocks: finding.blocks, hits: finding.hits.map(total), isSmallest };
  }

  test.each([
    ["lru", "fifo", "a b a c b", 1],
    ["lfu", "lru", "a a b c b", 1],
    ["lru", "belady", "a b c a", 0],
    ["index=none", "index=radix-tree", "a a", 0],
  ])("%s and %s: %s", async (first, second, prompts, hits) => {
    const found = await smallest(first, second);
    expect(found).toEqual({ prompts, blocks: expect.any(Number), hits: [hits, hits + 1], isSmallest: true });
  });

  test("no policy has more hits than the optimum", async () => {
    const { cases, finding, allUpTo } = (await smallest("belady", "lru", 1000)) as BeatSearchResult;
    expect({ cases, finding, allUpTo }).toEqual({ cases: 1000, finding: undefined, allUpTo: 3 });
  });

  test("a finding larger than the enumerated traces is found at random, and shrunk", async () => {
    // The enumerated traces have fewer than five requests: none uses content again that was used twice.
    const found = await smallest("slru", "lru", 2000);
    expect(found).toMatchObject({ isSmallest: false });
    expect((found as { prompts: string }).prompts.split(" ").length).toBeLessThanOrEqual(9);
  });

  test("every trace of a size is enumerated once", () => {
    const written = (requests: number, blocks: number) => [...everyTrace(requests, blocks)].length;
    // Of single blocks, one per partition into equal contents; of one request, one per length.
    expect([1, 2, 3, 4, 5].map((n) => written(n, n))).toEqual([1, 2, 5, 15, 52]);
    expect([1, 2, 3, 4].map((n) => written(1, n))).toEqual([1, 1, 1, 0]);
    expect([...everyTrace(2, 3)].length).toBe(4); // a ab, a bc, ab a, ab c
  });
});
