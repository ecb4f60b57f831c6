import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { bandGroups, commonRules } from "../../../lab/compare/bands.ts";
import { compareReplays, type ReplayComparison } from "../../../lab/compare/compare.ts";
import { hitRatioCurves } from "../../../lab/curve/curves.ts";

const choice = fc.record({
  name: fc.constantFrom("lru", "fifo"),
  rules: fc
    .tuple(fc.constantFrom("", "share=all"), fc.constantFrom("", "free-order=reverse", "free-order=forward"))
    .map((rules) => rules.filter(Boolean)),
  seed: fc.integer({ min: 1, max: 3 }),
});

describe("bands", () => {
  test("contain each configuration once, with those that differ only in free-order and seed", () => {
    fc.assert(
      fc.property(fc.array(choice, { minLength: 1, maxLength: 12 }), (all) => {
        const groups = bandGroups(all, (one, other) => one.name === other.name);
        expect(groups.flatMap(({ members }) => members).sort((a, b) => a - b)).toEqual(all.map((_, i) => i));
        const keyOf = ({ name, rules }: (typeof all)[number]) =>
          JSON.stringify([name, rules.filter((rule) => !rule.startsWith("free-order"))]);
        const keys = groups.map(({ members }) => new Set(members.map((i) => keyOf(all[i]))));
        for (const group of keys) expect(group.size).toBe(1);
        expect(new Set(keys.flatMap((group) => [...group])).size).toBe(groups.length);
        for (const { members, over } of groups) {
          const seeds = new Set(members.map((i) => all[i].seed));
          expect(over.includes("seed")).toBe(seeds.size > 1);
          const rules = new Set(members.map((i) => commonRules(all[i], over).join()));
          expect(rules.size).toBe(1);
        }
      }),
    );
  });
});

describe("bands of compared runs", () => {
  let compared: ReplayComparison;
  beforeAll(async () => {
    compared = await compareReplays("example", {
      limit: 400,
      blocks: [{ share: 0.1 }, { share: 0.5 }],
      index: ["hash-table", "radix-tree"],
      eviction: ["lru", "random"],
      rules: { "free-order": ["reverse", "forward"] },
      seed: [1, 2, 3],
    });
  });

  test("have the least and the largest hit ratio of their runs, and every run is in one band", () => {
    const { runs, bands = [] } = compared.report;
    expect(bands.flatMap((band) => band.runs).sort((a, b) => a - b)).toEqual(runs.map((_, i) => i));
    for (const { runs: numbers, over, hitRatio } of bands) {
      const all = numbers.map((number) => runs[number]);
      expect(new Set(all.map(({ policy }) => `${policy.index} ${policy.eviction} ${policy.blocks}`)).size).toBe(1);
      const values = all.map(({ cache }) => cache.hitRatio.token);
      expect(hitRatio.token).toEqual({ low: Math.min(...values), high: Math.max(...values) });
      const isOnline = !["belady", "unbounded"].includes(all[0].policy.eviction);
      expect({ over, runs: numbers.length }).toEqual(
        isOnline ? { over: ["free-order", "seed"], runs: 6 } : { over: ["free-order"], runs: 2 },
      );
    }
    const random = bands.find(({ runs: [first] }) => runs[first].policy.eviction === "random")!;
    expect(random.hitRatio.block.low).toBeLessThan(random.hitRatio.block.high);
  });

  test("are behind the best band by an interval that contains those of their runs", () => {
    const { runs, bands = [] } = compared.report;
    const withInterval = bands.filter(({ behindBest }) => behindBest);
    expect(withInterval).toHaveLength(8);
    for (const { runs: numbers, behindBest } of withInterval)
      for (const { value } of numbers.map((number) => runs[number].uncertainty!.behindBest)) {
        expect(value).toBeGreaterThanOrEqual(behindBest!.low);
        expect(value).toBeLessThanOrEqual(behindBest!.high);
      }
  });

  test("equal the curves' bands", async () => {
    const { distinctBlocks } = compared.comparison;
    const { report } = await hitRatioCurves("example", {
      limit: 400,
      blocks: [{ blocks: Math.floor(0.1 * distinctBlocks) }, { blocks: Math.floor(0.5 * distinctBlocks) }],
      eviction: ["lru", "random"],
      rules: { "free-order": ["reverse", "forward"] },
      seed: [1, 2, 3],
    });
    const { runs, bands = [] } = compared.report;
    const sizes = report.curves[0].points.map(({ blocks }) => blocks);
    for (const [c, eviction] of ["lru", "random"].entries())
      for (const [i, blocks] of sizes.entries()) {
        const same = bands.find(({ runs: [first] }) => {
          const { policy } = runs[first];
          return policy.index === "hash-table" && policy.eviction === eviction && policy.blocks === blocks;
        });
        expect(report.bands![c].points[i]).toEqual({ blocks, ...same!.hitRatio.block });
      }
    // One pass over the trace draws no random numbers: two curves for lru, six for random.
    expect(report.bands!.map(({ curves }) => curves.length)).toEqual([2, 6]);
  });

  test("are absent where nothing but other options differ", async () => {
    const { report } = await compareReplays("example", {
      limit: 50,
      eviction: ["lru", "fifo"],
      blocks: [{ blocks: 9 }],
    });
    expect(report).not.toHaveProperty("bands");
    const curves = await hitRatioCurves("example", { limit: 50, eviction: ["lru", "fifo"], blocks: [{ blocks: 9 }] });
    expect(curves.report).not.toHaveProperty("bands");
  });
});
