import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EvictionPlugin } from "../../core/plugins/index.ts";
import { collisionsOneAtATime } from "../../laws/collisions.ts";
import { determinism } from "../../laws/determinism.ts";
import { logAndAudit } from "../../laws/log-and-audit.ts";
import { metrics } from "../../laws/metrics.ts";
import { overlapping } from "../../laws/overlapping.ts";
import { type Outcome, runScenario } from "../../laws/scenario.ts";
import { traceBatches } from "../../laws/trace-batches.ts";
import { type Trial, violations } from "../../laws/trial.ts";
import { unlimitedHits } from "../../laws/unlimited-hits.ts";
import { unlimitedSameHits } from "../../laws/unlimited-same-hits.ts";
import { allPlugins, isLong, report } from "./all-plugins.ts";
import { Combination, choicesWith, everyChoiceWith } from "./combinations.ts";
import { everything, pairwise } from "./pairwise.ts";

// The rows together contain every pair of choices (pairwise testing); with KVLAB_LONG=1 there is a row for every combination.

const oneAtATime = [
  metrics,
  unlimitedHits,
  unlimitedSameHits,
  determinism,
  logAndAudit,
  traceBatches,
  collisionsOneAtATime,
];

/** Numbers of observed situations: each must occur. */
const happened = {
  evictions: 0,
  "splits of radix-tree nodes": 0,
  "evictions of a part of a run": 0,
  "blocks replaced by a duplicate": 0,
  "blocks past a hole that were adopted": 0,
  "copies of a last block": 0,
  "copies of a part of a block": 0,
  "partially matching blocks taken over": 0,
  "rolled-back steps": 0,
  preemptions: 0,
  "admissions that failed": 0,
  "evictions of descendants": 0,
};

/** The policy, with counts of its notifications about runs. */
function observed(eviction: EvictionPlugin): EvictionPlugin {
  return {
    ...eviction,
    create(context) {
      const policy = eviction.create(context);
      const { remove, split, resized } = policy;
      let evicted: number | undefined;
      policy.remove = (entry, why) => {
        // Descendants of a victim are evicted with it.
        if (why === "dropped" && evicted !== undefined) happened["evictions of descendants"]++;
        evicted = why === "evicted" ? entry : undefined;
        remove.call(policy, entry, why);
      };
      policy.split = (lower, upper) => {
        happened["splits of radix-tree nodes"]++;
        split?.call(policy, lower, upper);
      };
      policy.resized = (entry) => {
        if (entry === evicted) happened["evictions of a part of a run"]++;
        evicted = undefined;
        resized?.call(policy, entry);
      };
      return policy;
    },
  };
}

function observe({ log, decisions, counters, failedAdmissions }: Outcome): void {
  /** Blocks that each request hit when it was last admitted. */
  const hits = new Map<string, string>();
  for (const line of log) {
    const [, kind, request, , key, value] = line.split(" ");
    if (kind === "admit") hits.set(request, value);
    if (kind === "evict") happened.evictions++;
    if (kind === "duplicate") happened["blocks replaced by a duplicate"]++;
    // A block that is reused in place has no content id.
    if (kind === "adopt")
      happened[key === "-1" ? "partially matching blocks taken over" : "blocks past a hole that were adopted"]++;
    if (kind === "copy")
      happened[value === hits.get(request) ? "copies of a part of a block" : "copies of a last block"]++;
  }
  happened["rolled-back steps"] += decisions.filter((text) => text.endsWith("rolled back")).length;
  happened.preemptions += counters.preemptions;
  happened["admissions that failed"] += failedAdmissions;
}

const observedOverlapping: Trial = {
  ...overlapping,
  check: ({ script = [], ...one }) =>
    observe(runScenario({ ...one, script, config: { ...one.config, eviction: observed(one.config.eviction) } })),
};

function holdsIn(row: Combination, trial: Trial, runs: number, seed?: number): void {
  if (trial === traceBatches && row.eviction.offline) return;
  if (trial === collisionsOneAtATime && row.rules.collision === "trust") return;
  report(violations(row.of(trial), row.parts, { runs, seed }), `${row.text}\n`);
}

/** Each row has different cases, also with a fixed seed. */
const drawn = (n: number): number | undefined => {
  const { seed } = fc.readConfigureGlobal();
  return seed === undefined ? undefined : seed * 10_000 + n;
};

const short = () => {
  const rows = allPlugins.indexes.flatMap((index) => {
    const choices = everyChoiceWith(index);
    return pairwise(choices).map((row) => new Combination(index, choices, row));
  });

  /** Situations that other rules mostly prevent, with each policy that evicts. */
  const rare = allPlugins.evictions.flatMap((eviction) => {
    const alone = (name: string, rule: string, value: string) => {
      const index = allPlugins.indexes.find((one) => one.name === name)!;
      const choices = choicesWith(index);
      return new Combination(index, choices, { [rule]: choices[rule].indexOf(value) }, eviction);
    };
    if (eviction.unlimited) return [];
    return [
      alone("hash-table", "duplicates", "adopt"),
      alone("block-trie", "victims", "any"),
      alone("block-trie", "partial", "copy"),
      ...[1, 2, 3].map(() => alone("block-trie", "partial", "steal")),
      alone("radix-tree", "victim-unit", "tail"),
    ];
  });

  test("overlapping requests", () => {
    for (const [n, row] of rows.entries()) holdsIn(row, observedOverlapping, 3, drawn(n));
  });

  test("overlapping requests in rare situations", () => {
    for (const [seed, row] of rare.entries()) holdsIn(row, observedOverlapping, 12, seed);
  });

  test.each(Object.entries(happened))("the trials cover more than 20 %s", (what) => {
    expect(happened[what as keyof typeof happened]).toBeGreaterThan(20);
  });

  test.each(oneAtATime.map((trial) => [trial.laws[0].statement, trial] as const))("%s", (_, trial) => {
    for (const [n, row] of rows.entries()) holdsIn(row, trial, 2, drawn(n));
  });
};

const each = allPlugins.indexes.flatMap((index) => allPlugins.evictions.map((eviction) => ({ index, eviction })));
const long = () => {
  test.each(each.map((one) => [one.index.name, one.eviction.name, one] as const))(
    "with index %s and policy %s",
    (_index, _eviction, { index, eviction }) => {
      const choices = choicesWith(index);
      let rows = 0;
      for (const row of everything(choices)) {
        const combination = new Combination(index, choices, row, eviction);
        holdsIn(combination, overlapping, 1);
        // Only one of the other trials per row, in turn, to limit the time of a row.
        holdsIn(combination, oneAtATime[rows++ % oneAtATime.length], 1);
      }
      console.info(`${rows} combinations of index ${index.name} and policy ${eviction.name}`);
    },
  );
};

if (isLong) describe("all combinations of choices", long);
else describe("all pairs of choices", short);
