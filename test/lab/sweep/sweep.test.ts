import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { replay, type SweepConfiguration, type SweptOptions, sweep } from "../../../index.ts";
import { keyOf, resolve } from "../../../lab/sweep/configuration.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-sweep-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("sweep runs configurations as values, reports progress, and stops at its signal", async () => {
  const configurations = ["lru", "fifo"].map(
    (eviction): SweepConfiguration => ({
      options: { eviction, blocks: { blocks: 20 }, limit: 30 },
      varied: { eviction },
    }),
  );
  const out = join(folder, "out");
  const done: string[] = [];
  const progress = ({ doing, done: count }: { doing: string; done: number }) => void done.push(`${doing} ${count}`);
  const report = await sweep(configurations, { out, workers: 1, progress });
  expect(report).toMatchObject({ configurations: 2, run: 2, failed: [] });
  expect(done).toContain("running on 1 local worker 2");
  const { configurations: listed } = JSON.parse(readFileSync(join(out, "sweep.json"), "utf8"));
  for (const { key, eviction } of listed) {
    const { cache } = JSON.parse(readFileSync(join(out, key, "run.json"), "utf8"));
    const replayed = await replay("example", { eviction, blocks: { blocks: 20 }, limit: 30 });
    expect(cache).toEqual(replayed.report.cache);
  }
  const aborted = { out: join(folder, "aborted"), workers: 1, signal: AbortSignal.abort() };
  await expect(sweep(configurations, aborted)).rejects.toThrow("interrupted");
  expect(readdirSync(folder)).toEqual(["out"]);
});

test("the key of a configuration depends on the options, not on their order, nor on defaults that are written", async () => {
  const all: SweptOptions = {
    eviction: "lfu",
    blocks: { blocks: 7 },
    limit: 3,
    seed: 4,
    warmup: 1,
    rules: { "free-order": "forward" },
  };
  const key = async (options: SweptOptions) => keyOf(await resolve(options), [], []);
  const first = await key(all);
  await fc.assert(
    fc.asyncProperty(
      fc.shuffledSubarray(Object.entries(all), { minLength: Object.keys(all).length }),
      async (entries) => {
        expect(await key(Object.fromEntries(entries))).toBe(first);
      },
    ),
    { numRuns: 20 },
  );
  expect(await key({ ...all, index: "hash-table", target: "cache", scheduler: "naive" })).toBe(first);
  for (const other of [{ seed: 5 }, { limit: 4 }, { warmup: 0 }, { eviction: "lru" }, { rules: {} }, { audit: true }])
    expect(await key({ ...all, ...other }), JSON.stringify(other)).not.toBe(first);
});
