import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { BlockTable } from "../../core/cache/block-table.ts";
import { KvCache } from "../../core/cache/kv-cache.ts";
import { CacheRequests } from "../../core/cache/replica-requests.ts";
import { PolicyError } from "../../core/errors.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";
import { evictionWith } from "../../core/replica/compose.ts";
import { configs } from "../../laws/configs.ts";
import { runScenario } from "../../laws/scenario.ts";
import type { Trial } from "../../laws/trial.ts";
import { evictionTrials } from "../../laws/trials.ts";
import { workloads } from "../../laws/workloads.ts";
import { evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { LiveCache } from "../support/live-cache.ts";
import { allPlugins, holds } from "./all-plugins.ts";
import { broken, violationsWith } from "./hook-faults.ts";

// The hooks `admits`, `nextToExpire` and `expiresAt`: every law with policies that refuse blocks or let entries expire, and faults
// planted in them.

const lru = evictionRegistry.get("lru");

/** LRU that stores a block only if a random number allows it. */
const refusesAtRandom: EvictionPlugin = {
  ...lru,
  name: "refuses-at-random",
  create(context) {
    const policy = lru.create(context);
    const admits = (_: unknown, from: number, to: number) => {
      for (let i = from; i < to; i++) if (context.random.below(4) === 0) return i;
      return to;
    };
    return Object.assign(policy, { admits });
  },
};

/** Scenarios count nanoseconds from 1, one per step. */
const shortLived = evictionWith(evictionRegistry.get("ttl"), { "ttl-s": 3e-9 });

describe.each([refusesAtRandom, shortLived].map((plugin) => [plugin.name, plugin] as const))(
  "with %s",
  (_, eviction) => {
    const named = evictionTrials.map((trial): [string, Trial] => [
      trial.laws.map(({ name }) => name).join(", "),
      trial,
    ]);
    test.each(named)("%s", (_laws, trial) => holds(trial, { ...allPlugins, evictions: [eviction] }));
  },
);

test("policies without a fault violate no law in the same scenarios", () => {
  expect(violationsWith(broken(refusesAtRandom, () => ({})))).toBe("");
  expect(violationsWith(broken(shortLived, () => ({})))).toBe("");
});

test("refused blocks and expired entries occur in these scenarios", () => {
  const scenarios = fc.sample(
    fc.record({
      workload: workloads(),
      config: configs(
        { ...allPlugins, indexes: [indexRegistry.get("hash-table")], evictions: [lru] },
        { noRules: true },
      ),
    }),
    { numRuns: 40, seed: 1 },
  );
  const totals = { refused: 0, expired: 0 };
  for (const { workload, config } of scenarios) {
    const blocks = config.blocks ?? 8;
    const run = (eviction: EvictionPlugin) =>
      runScenario({ workload, script: [], config: { ...config, blocks, eviction } }).counters;
    totals.refused += run(refusesAtRandom).refusedBlocks;
    totals.expired += run(shortLived).expiredBlocks;
  }
  expect(totals.refused).toBeGreaterThan(50);
  expect(totals.expired).toBeGreaterThan(50);
});

test("admits-in-range detects a policy that admits more blocks than there are", () => {
  const eviction = broken(refusesAtRandom, () => ({ admits: (_, __, to) => to + 1 }));
  expect(violationsWith(eviction)).toMatch(/^admits\(request \d+, \d+, \d+\) returned \d+$/m);
});

test("refused-not-stored detects a cache that stores a block after a refused one", () => {
  const forgets = vi.spyOn(BlockTable.prototype, "refuse").mockImplementation(() => {});
  try {
    expect(violationsWith(refusesAtRandom)).toMatch(
      /^block \d+ of request \d+ is stored, but admits\(\) refused block \d+$/m,
    );
  } finally {
    forgets.mockRestore();
  }
});

test("first-to-expire detects a policy that returns an entry that expires later", () => {
  const eviction = broken(shortLived, (inner) => {
    const evictable = new Set<number>();
    return {
      add(entry) {
        evictable.add(entry);
        inner.add(entry);
      },
      remove(entry, why) {
        evictable.delete(entry);
        inner.remove(entry, why);
      },
      nextToExpire: () => [...evictable].sort((a, b) => inner.expiresAt!(b) - inner.expiresAt!(a))[0],
    };
  });
  expect(violationsWith(eviction)).toMatch(/^nextToExpire\(\) returned \d+, and entry \d+ expires before it, at \d+/m);
});

test("first-to-expire detects a policy whose nextToExpire has side effects", () => {
  const eviction = broken(shortLived, (inner) => {
    let calls = 0;
    return { nextToExpire: () => (++calls % 2 === 0 ? undefined : inner.nextToExpire!()) };
  });
  expect(violationsWith(eviction)).toMatch(
    /^nextToExpire\(\) returned (\d+, and undefined|undefined, and \d+) when called again/m,
  );
});

test.each([Number.NaN, undefined, "soon"])("an expiry time of %s is an error of the policy", (at) => {
  const eviction = broken(shortLived, () => ({ expiresAt: () => at as number }));
  const live = new LiveCache({ eviction });
  live.run("abcd");
  const refusal = new PolicyError(`expiresAt(0) of the eviction policy returned ${at}, expected a time`);
  expect(() => live.run("efgh")).toThrow(refusal);
});

test("expired-not-stored detects a cache that does not evict expired entries", () => {
  const stays = vi.spyOn(KvCache.prototype, "advanceTo").mockImplementation(() => {});
  try {
    expect(violationsWith(shortLived)).toMatch(/^entry \d+ expires at \d+ and is stored at \d+$/m);
  } finally {
    stays.mockRestore();
  }
});

test("a policy whose expiry depends on the operation under way breaks a law of lookups", () => {
  const eviction = broken(shortLived, (inner, { clock }) => ({
    expiresAt: (entry) => {
      const at = inner.expiresAt!(entry);
      return at <= clock.now ? at : Number.POSITIVE_INFINITY;
    },
  }));
  expect(violationsWith(eviction)).toMatch(/^(after a refused admission|request \d+ matched)/m);
});

test("requests-view detects a view without the head of the queue", () => {
  const waiting = CacheRequests.prototype.waiting;
  const view = vi.spyOn(CacheRequests.prototype, "waiting").mockImplementation(function (this: CacheRequests) {
    return [...waiting.call(this)].slice(1);
  });
  try {
    expect(violationsWith(evictionRegistry.get("queue-lru"))).toMatch(/^waiting and running requests: /m);
  } finally {
    view.mockRestore();
  }
});
