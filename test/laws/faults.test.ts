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
import { configs, weakHash } from "../../laws/configs.ts";
import { determinism } from "../../laws/determinism.ts";
import { manyAtOnce } from "../../laws/many-at-once.ts";
import { belowOptimum } from "../../laws/optimum.ts";
import { oneAtATime } from "../../laws/recorder.ts";
import { play, type Scenario, type ScenarioConfig } from "../../laws/scenario.ts";
import { type Trial, violations } from "../../laws/trial.ts";
import { worlds } from "../../laws/worlds.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { goldenCapacities, goldenHits, goldenTrace } from "../golden/golden-trace.ts";
import { replayed } from "../support/replays.ts";
import { everyPart } from "./parts.ts";

// Parts that are broken on purpose: every law's check must see what it is there for. These tests pass because the
// checks fail.

const hashTable = indexRegistry.get("hash-table");
const lru = evictionRegistry.get("lru");
const block = allocatorRegistry.get("block");

/** Scenarios with these parts, the same in every run, in caches small enough to evict. */
function planted(own: Partial<ScenarioConfig>, rules: Partial<Record<RuleName, RuleValue>> = {}): Scenario[] {
  const scenarios = fc.record({
    world: worlds(),
    config: configs({ ...everyPart, indexes: [hashTable], evictions: [lru] }, { noRules: true }),
    script: fc.array(fc.nat(23), { minLength: 100, maxLength: 300, size: "max" }),
  });
  return fc.sample(scenarios, { numRuns: 80, seed: 1 }).map((scenario) => {
    const { blocks, ...config } = scenario.config;
    return { ...scenario, config: { ...config, blocks: blocks ?? 8, rules, ...own } };
  });
}

/** What the checks say of the fault, each message once. */
function complaints(scenarios: readonly Scenario[], check: (scenario: Scenario) => unknown = play): string {
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

/** What a trial says of a policy, the same in every run. */
function found(trial: Trial, eviction: EvictionPlugin): string {
  const parts = { ...everyPart, indexes: [hashTable], evictions: [eviction] };
  return violations(trial, parts, { runs: 80, seed: 1 })
    .map(({ message }) => message)
    .join("\n");
}

/** The hash table with some methods of its own. */
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

/** An object that does all as `inner` does, but for `own`. */
function changed<T extends object>(inner: T, own: Partial<T>): T {
  return new Proxy(inner, {
    get(_, name) {
      if (Object.hasOwn(own, name)) return Reflect.get(own, name);
      const value = Reflect.get(inner, name, inner);
      return typeof value === "function" ? value.bind(inner) : value;
    },
  });
}

test("without a fault, the same scenarios have nothing to complain of", () => {
  expect(complaints(planted({ index: brokenIndex(() => ({})), eviction: brokenPolicy(() => ({})) }))).toBe("");
});

test("law 1: an allocator that hands out a block that somebody owns is caught", () => {
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
  expect(complaints(planted({ allocator }))).toMatch(/^block \d+ is (computing|reserved|published), not free/m);
});

test("law 1: an index that never says that its blocks may go leaks them, and is caught", () => {
  const index = brokenIndex((inner) => ({
    released: (blocks, count) => {
      if (count > 1) inner.released(blocks, count - 1);
    },
  }));
  expect(complaints(planted({ index }))).toMatch(/what the policy was told is evictable/);
});

test("law 1: an index that counts a block that it does not store is caught", () => {
  const index = brokenIndex((inner) => ({
    get blockCount() {
      return inner.blockCount + 1;
    },
  }));
  expect(complaints(planted({ index }))).toMatch(/^the index counts \d+ blocks and stores \d+/m);
});

test("law 2: an index that finds blocks before they are computed is caught", () => {
  const index = brokenIndex((inner) => ({
    insert: (insertion) => {
      const { to, table, promptBlocks } = insertion;
      const early = to < promptBlocks && table[to] >= 0 ? to + 1 : to;
      return inner.insert({ ...insertion, to: early, instead: new Int32Array(64) });
    },
  }));
  expect(complaints(planted({ index }, { publish: "chunk" }))).toMatch(
    /^block \d+ is computing; stored by the index: true$/m,
  );
});

test("law 2: an index that still finds what was evicted is caught", () => {
  const index = brokenIndex((_inner, { host }) => ({
    evict: (entry) => host.forgotten(entry),
  }));
  expect(complaints(planted({ index }))).toMatch(/stored by the index: true|what the policy was told/);
});

test("law 2: a policy that names a block in use is caught, in a sentence that says so", () => {
  const eviction = brokenPolicy((inner) => {
    let held: number | undefined;
    return {
      remove: (entry, why) => {
        if (why === "referenced") held = entry;
        inner.remove(entry, why);
      },
      victim: (now) => held ?? inner.victim(now),
    };
  });
  expect(
    complaints(planted({ eviction: oneAtATime(eviction) }), (scenario) => play({ ...scenario, checked: false })),
  ).toMatch(/^eviction policy named entry \d+ as victim, which a request holds$/m);
});

test("law 2: a lookup that changes something is caught by the admission that it was for", () => {
  const index = brokenIndex((inner, { host }) => ({
    match: (...lookup) => {
      const idle = [...inner.blocks()].find((stored) => host.isIdle(stored));
      if (idle !== undefined) inner.forget(idle);
      inner.match(...lookup);
    },
  }));
  expect(complaints(planted({ index }))).toMatch(/after a refused admission|tokens cached for request/);
});

test("law 3: an index that finds other content is caught", () => {
  const index = brokenIndex((inner) => ({
    match: (keys, start, count, table, found) => {
      inner.match(keys, start, count, table, found);
      if (found.blocks > 1) [table[0], table[1]] = [table[1], table[0]];
    },
  }));
  expect(complaints(planted({ index }))).toMatch(/^request \d+ reads .* expected/m);
});

test("law 3: an index that finds less than there is is caught", () => {
  const index = brokenIndex((inner) => ({
    match: (keys, start, count, table, found) => inner.match(keys, start, Math.min(count, 1), table, found),
  }));
  expect(complaints(planted({ index }))).toMatch(/tokens cached for request \d+: \d+, expected \d+/);
});

test("law 3: trusting a hash that collides is caught", () => {
  expect(complaints(planted({ hash: weakHash }, { collision: "trust" }))).toMatch(
    /^(request \d+ reads .* expected|tokens cached for request \d+: \d+, expected 0$)/m,
  );
  expect(complaints(planted({ hash: weakHash }, { collision: "compare" }))).toBe("");
});

test("law 4: a policy that asks Math.random is caught", () => {
  const eviction: EvictionPlugin = { ...lru, create: byScore(() => Math.random()) };
  expect(found(determinism, eviction)).toMatch(/^the same requests again are served otherwise: /);
  expect(found(determinism, lru)).toBe("");
});

test("law 5: a policy that has more hits than the optimum is caught", () => {
  const parts = { ...everyPart, indexes: [hashTable], evictions: [everyPart.known.optimum] };
  const worse = { ...parts, known: { ...parts.known, optimum: evictionRegistry.get("fifo") } };
  const [first] = violations(belowOptimum, worse, { runs: 80, seed: 1 });
  expect(first.message).toMatch(/^belady has \d+ hits, the optimum \d+$/);
});

test("law 5: an optimum that takes the nearest next use for the furthest is caught", async () => {
  const trace = await goldenTrace();
  const blocks = goldenCapacities(trace)[2];
  const mru = { ...evictionRegistry.get("belady"), create: byScore("-lastAccess", "releaseOrder") };
  const { hitBlocks } = replayed(trace, { eviction: mru, blocks }).report;
  expect(replayed(trace, { policy: "lru", blocks }).report.hitBlocks).toBeGreaterThan(hitBlocks);
});

test("golden counts: MRU under the name of lru keeps every law and is caught all the same", async () => {
  const mru: EvictionPlugin = { ...lru, create: byScore("-lastAccess", "releaseOrder") };
  expect(complaints(planted({ eviction: mru }))).toBe("");
  const trace = await goldenTrace();
  const hits = goldenCapacities(trace).map((blocks) => replayed(trace, { eviction: mru, blocks }).report.hitBlocks);
  expect(hits.join(" ")).not.toBe(goldenHits["lru"]);
});

test("policy contract: a victim that changes with asking is caught", () => {
  const eviction = brokenPolicy((inner) => {
    const added = new Set<number>();
    let asked = 0;
    return {
      add: (entry) => {
        added.add(entry);
        inner.add(entry);
      },
      remove: (entry, why) => {
        added.delete(entry);
        inner.remove(entry, why);
      },
      victim: () => [...added][asked++ % added.size],
    };
  });
  expect(complaints(planted({ eviction }))).toMatch(/^victim \d+, asked again \d+$/m);
});

test("policy contract: batch methods that do not do what add and remove do are caught", () => {
  const byNothing: EvictionPlugin = {
    ...lru,
    create: (context) => {
      const inner = byScore(() => 0)(context);
      return changed(inner, {
        addMany: (entries, count) => {
          for (let i = count - 1; i >= 0; i--) inner.add(entries[i]);
        },
      });
    },
  };
  expect(found(manyAtOnce, byNothing)).toMatch(/^many at once: /);
  expect(found(manyAtOnce, lru)).toBe("");
});
