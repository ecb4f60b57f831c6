import fc from "fast-check";
import { expect, test } from "vitest";
import { byScore } from "../../core/plugins/by-score.ts";
import type {
  AllocatorPlugin,
  EvictionContext,
  EvictionPlugin,
  EvictionPolicy,
  IndexContext,
  IndexPlugin,
  PrefixIndex,
} from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { batchMethods } from "../../laws/batch-methods.ts";
import { withoutBatchMethods } from "../../laws/checked-policy.ts";
import { configs, weakHash } from "../../laws/configs.ts";
import { determinism } from "../../laws/determinism.ts";
import { belowOptimum } from "../../laws/optimum.ts";
import { runScenario, type Scenario, type ScenarioConfig } from "../../laws/scenario.ts";
import { type Trial, violations } from "../../laws/trial.ts";
import { workloads } from "../../laws/workloads.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { goldenCapacities, goldenHits, goldenTrace } from "../golden/golden-trace.ts";
import { replayed } from "../support/replays.ts";
import { allPlugins } from "./all-plugins.ts";

// Planted faults: deliberately broken plug-ins. A test passes if the law reports a violation.

const hashTable = indexRegistry.get("hash-table");
const lru = evictionRegistry.get("lru");
const block = allocatorRegistry.get("block");

/** Scenarios with the given plug-ins, the same in every run, in caches small enough to evict. */
function planted(own: Partial<ScenarioConfig>, rules: Partial<Record<RuleName, RuleValue>> = {}): Scenario[] {
  const scenarios = fc.record({
    workload: workloads(),
    config: configs({ ...allPlugins, indexes: [hashTable], evictions: [lru] }, { noRules: true }),
    script: fc.array(fc.nat(23), { minLength: 100, maxLength: 300, size: "max" }),
  });
  return fc.sample(scenarios, { numRuns: 80, seed: 1 }).map((scenario) => {
    const { blocks, ...config } = scenario.config;
    return { ...scenario, config: { ...config, blocks: blocks ?? 8, rules, ...own } };
  });
}

/** The messages of all violations, each once. */
function violationsOf(scenarios: readonly Scenario[], check: (scenario: Scenario) => unknown = runScenario): string {
  const seen = new Set<string>();
  for (const scenario of scenarios) {
    try {
      check(scenario);
    } catch (error) {
      seen.add((error as Error).message.split("\n")[0]);
    }
  }
  return [...seen].join("\n");
}

/** The violations that a trial finds in a policy, the same in every run. */
function found(trial: Trial, eviction: EvictionPlugin): string {
  const parts = { ...allPlugins, indexes: [hashTable], evictions: [eviction] };
  return violations(trial, parts, { runs: 80, seed: 1 })
    .map(({ message }) => message)
    .join("\n");
}

/** The hash table with some methods replaced. */
function brokenIndex(change: (inner: PrefixIndex, context: IndexContext) => Partial<PrefixIndex>): IndexPlugin {
  return {
    ...hashTable,
    create(context, blockCount) {
      const inner = hashTable.create(context, blockCount);
      return changed(inner, change(inner, context));
    },
  };
}

function brokenPolicy(change: (inner: EvictionPolicy, context: EvictionContext) => Partial<EvictionPolicy>) {
  const plugin: EvictionPlugin = {
    ...lru,
    create(context) {
      const inner = lru.create(context);
      return changed(inner, change(inner, context));
    },
  };
  return plugin;
}

/** `inner` with the methods of `own` instead of its own. */
function changed<T extends object>(inner: T, own: Partial<T>): T {
  return new Proxy(inner, {
    get(_, name) {
      if (Object.hasOwn(own, name)) return Reflect.get(own, name);
      const value = Reflect.get(inner, name, inner);
      return typeof value === "function" ? value.bind(inner) : value;
    },
  });
}

test("plug-ins without a fault violate no law in the same scenarios", () => {
  expect(violationsOf(planted({ index: brokenIndex(() => ({})), eviction: brokenPolicy(() => ({})) }))).toBe("");
});

test("conservation detects an allocator that allocates a block twice", () => {
  const allocator: AllocatorPlugin = {
    ...block,
    create(blockCount) {
      const inner = block.create(blockCount);
      let last = 0;
      let count = 0;
      return changed(inner, {
        allocate(table, from, to) {
          for (let i = from; i < to; i++) {
            if (++count % 5 === 0) table[i] = last;
            else inner.allocate(table, i, i + 1);
            last = table[i];
          }
        },
      });
    },
  };
  expect(violationsOf(planted({ allocator }))).toMatch(/^block \d+ is (computing|reserved|published), not free/m);
});

test("add-remove-alternate detects an index that does not report released blocks as evictable", () => {
  const index = brokenIndex((inner) => ({
    released: (blocks, count) => {
      if (count > 1) inner.released(blocks, count - 1);
    },
  }));
  expect(violationsOf(planted({ index }))).toMatch(/reported to the policy as evictable/);
});

test("conservation detects an index whose blockCount is wrong", () => {
  const index = brokenIndex((inner) => ({
    get blockCount() {
      return inner.blockCount + 1;
    },
  }));
  expect(violationsOf(planted({ index }))).toMatch(/^the index counts \d+ blocks and stores \d+/m);
});

test("longest-match detects an index that stores blocks before they are computed", () => {
  const index = brokenIndex((inner) => ({
    insert: (insertion) => {
      const { to, table, promptBlocks } = insertion;
      const early = to < promptBlocks && table[to] >= 0 ? to + 1 : to;
      return inner.insert({ ...insertion, to: early, replacements: new Int32Array(64) });
    },
  }));
  expect(violationsOf(planted({ index }, { publish: "chunk" }))).toMatch(
    /^block \d+ is computing; stored by the index: true$/m,
  );
});

test("conservation detects an index that still stores evicted blocks", () => {
  const index = brokenIndex((_inner, { host }) => ({
    evict: (entry) => host.blockDropped(entry),
  }));
  expect(violationsOf(planted({ index }))).toMatch(/stored by the index: true|reported to the policy as evictable/);
});

test("a policy that returns a referenced entry as victim is refused with a message", () => {
  const eviction = brokenPolicy((inner) => {
    let referenced: number | undefined;
    return {
      remove: (entry, why) => {
        if (why === "referenced") referenced = entry;
        inner.remove(entry, why);
      },
      victim: (now) => referenced ?? inner.victim(now),
    };
  });
  expect(
    violationsOf(planted({ eviction: withoutBatchMethods(eviction) }), (scenario) =>
      runScenario({ ...scenario, checked: false }),
    ),
  ).toMatch(/^eviction policy returned entry \d+ as victim, which a request references$/m);
});

test("failed-admission detects a match with side effects", () => {
  const index = brokenIndex((inner, { host }) => ({
    match: (...lookup) => {
      const idle = [...inner.blocks()].find((stored) => host.isIdle(stored));
      if (idle !== undefined) inner.drop(idle);
      inner.match(...lookup);
    },
  }));
  expect(violationsOf(planted({ index }))).toMatch(/after a refused admission|tokens cached for request/);
});

test("longest-match detects an index that matches other content", () => {
  const index = brokenIndex((inner) => ({
    match: (keys, start, count, table, found) => {
      inner.match(keys, start, count, table, found);
      if (found.blocks > 1) [table[0], table[1]] = [table[1], table[0]];
    },
  }));
  expect(violationsOf(planted({ index }))).toMatch(/^request \d+ reads .* expected/m);
});

test("longest-match detects an index that matches too few blocks", () => {
  const index = brokenIndex((inner) => ({
    match: (keys, start, count, table, found) => inner.match(keys, start, Math.min(count, 1), table, found),
  }));
  expect(violationsOf(planted({ index }))).toMatch(/tokens cached for request \d+: \d+, expected \d+/);
});

test("longest-match detects colliding hashes under collision=trust", () => {
  expect(violationsOf(planted({ hash: weakHash }, { collision: "trust" }))).toMatch(
    /^(request \d+ reads .* expected|tokens cached for request \d+: \d+, expected 0$)/m,
  );
  expect(violationsOf(planted({ hash: weakHash }, { collision: "compare" }))).toBe("");
});

test("law 4: a policy that calls Math.random is detected", () => {
  const eviction: EvictionPlugin = { ...lru, ...byScore(() => Math.random()) };
  expect(found(determinism, eviction)).toMatch(/^a second replay of the same requests differs: /);
  expect(found(determinism, lru)).toBe("");
});

test("below-optimum detects a policy that has more hits than the optimum", () => {
  const parts = { ...allPlugins, indexes: [hashTable], evictions: [allPlugins.reference.optimum] };
  const worse = { ...parts, reference: { ...parts.reference, optimum: evictionRegistry.get("fifo") } };
  const [first] = violations(belowOptimum, worse, { runs: 80, seed: 1 });
  expect(first.message).toMatch(/^belady has \d+ hits, the optimum \d+$/);
});

test("LRU has more hits than an optimum that evicts the nearest next use instead of the furthest", async () => {
  const trace = await goldenTrace();
  const blocks = goldenCapacities(trace)[2];
  const mru = { ...evictionRegistry.get("belady"), ...byScore("-lastAccess", "releaseOrder") };
  const { hitBlocks } = replayed(trace, { eviction: mru, blocks }).report;
  expect(replayed(trace, { policy: "lru", blocks }).report.hitBlocks).toBeGreaterThan(hitBlocks);
});

test("MRU satisfies every law of a policy, and golden counts distinguish it from LRU", async () => {
  const mru: EvictionPlugin = { ...lru, ...byScore("-lastAccess", "releaseOrder") };
  expect(violationsOf(planted({ eviction: mru }))).toBe("");
  const trace = await goldenTrace();
  const hits = goldenCapacities(trace).map((blocks) => replayed(trace, { eviction: mru, blocks }).report.hitBlocks);
  expect(hits.join(" ")).not.toBe(goldenHits["lru"]);
});

test("victim-is-pure detects a policy whose victim() has side effects", () => {
  const eviction = brokenPolicy((inner) => {
    const added = new Set<number>();
    let calls = 0;
    return {
      add: (entry) => {
        added.add(entry);
        inner.add(entry);
      },
      remove: (entry, why) => {
        added.delete(entry);
        inner.remove(entry, why);
      },
      victim: () => [...added][calls++ % added.size],
    };
  });
  expect(violationsOf(planted({ eviction }))).toMatch(/^victim\(\) returned \d+, and \d+ when called again$/m);
});

test("batch-methods detects batch methods that are not equivalent to add and remove", () => {
  const byNothing: EvictionPlugin = {
    ...lru,
    create: (context) => {
      const inner = byScore(() => 0).create(context);
      return changed(inner, {
        addMany: (entries, count) => {
          for (let i = count - 1; i >= 0; i--) inner.add(entries[i]);
        },
      });
    },
  };
  expect(found(batchMethods, byNothing)).toMatch(/^with batch methods: /);
  expect(found(batchMethods, lru)).toBe("");
});
