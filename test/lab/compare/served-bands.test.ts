import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { compareServed } from "../../../index.ts";

const options = { target: "sim", limit: 60, blocks: [{ blocks: 150 }, { blocks: 300 }] } as const;
const eviction = ["lru", "random", "belady"];

test("runs of several seeds are those of each seed, and a band has their least and largest values", async () => {
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.nat(99), { minLength: 2, maxLength: 3 }), async (seed) => {
      const own = { ...options, eviction, rate: [4, 40] };
      const { report, rows } = await compareServed("example", { ...own, seed });
      const alone = await Promise.all(seed.map((one) => compareServed("example", { ...own, seed: one })));
      const withoutTimes = (runs: typeof report.runs) =>
        runs.map(({ wallMs: _, blockRefsPerS: __, ...run }) => JSON.stringify(run)).sort();
      // A policy that reads the future draws no random numbers and is run with the first seed.
      const expected = alone.flatMap(({ report: { runs } }, i) =>
        runs.filter(({ policy }) => i === 0 || policy.eviction !== "belady"),
      );
      expect(withoutTimes(report.runs)).toEqual(withoutTimes(expected));
      expect(report.bands!.flatMap(({ runs }) => runs).sort((a, b) => a - b)).toEqual(report.runs.map((_, i) => i));
      expect(report.bands).toHaveLength(3 * 2 * 2);
      for (const { runs, over, hitRatio, ttftMsP99 } of report.bands!) {
        const members = runs.map((run) => rows[run].report);
        const isOffline = members[0].policy.eviction === "belady";
        expect(over).toEqual(isOffline ? [] : ["seed"]);
        expect(members.map((member) => member.seed)).toEqual(isOffline ? seed.slice(0, 1) : seed);
        const same = members.map(({ policy, simulation }) => JSON.stringify([policy, simulation]));
        expect(new Set(same).size).toBe(1);
        const p99s = members.map(({ latency }) => latency!.ttftMs!.p99);
        expect(ttftMsP99).toEqual({ low: Math.min(...p99s), high: Math.max(...p99s) });
        const ratios = members.map(({ cache }) => cache.hitRatio.token);
        expect(hitRatio.token).toEqual({ low: Math.min(...ratios), high: Math.max(...ratios) });
      }
    }),
    { numRuns: 3 },
  );
});

test("one seed has no bands; each seed is saved in its own folder", async () => {
  const { report } = await compareServed("example", { ...options, eviction: ["random"], seed: [3] });
  expect(report.bands).toBeUndefined();
  const out = mkdtempSync(join(tmpdir(), "kvlab-bands-"));
  try {
    await compareServed("example", { ...options, eviction: ["random"], seed: [3, 4], out });
    expect(readdirSync(out)).toHaveLength(4);
  } finally {
    rmSync(out, { recursive: true });
  }
});
