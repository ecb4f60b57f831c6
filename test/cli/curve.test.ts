import { describe, expect, test } from "vitest";
import { json, kvlab, newFolder, refusal } from "./program.ts";

const example = ["curve", "--limit", "300"];

describe("kvlab curve", () => {
  test("its points are the hit ratios of replays, with one pass for lru and a replay for each size for others", async () => {
    const folder = newFolder();
    const lists = ["--blocks", "500,2000,90%", "--eviction", "lru,fifo", "--index", "hash-table,radix-tree"];
    const { schema, blockTokens, metric, curves, distinctBlocks } = await json(folder, [...example, ...lists]);
    expect({ schema, blockTokens, metric }).toEqual({ schema: "curve/1", blockTokens: 16, metric: "block" });
    const sizes = [500, 2000, Math.round(0.9 * distinctBlocks)];
    expect(curves).toMatchObject([
      { index: "hash-table", eviction: "lru", rules: [], exact: true, method: "one-pass" },
      { index: "hash-table", eviction: "fifo", rules: [], exact: true, method: "replay" },
      { index: "radix-tree", eviction: "lru", rules: [], exact: true, method: "one-pass" },
      { index: "radix-tree", eviction: "fifo", rules: [], exact: true, method: "replay" },
    ]);
    for (const { index, eviction, points } of curves) {
      for (const [i, { blocks, hitRatio, low, high, refusedRequests }] of points.entries()) {
        const options = ["--limit", "300", "--index", index, "--eviction", eviction, "--blocks", `${sizes[i]}`];
        const { cache } = await json(folder, ["replay", "--out", `run-${index}-${eviction}-${i}`, ...options]);
        expect({ blocks, hitRatio, low, high, refusedRequests }).toEqual({
          blocks: sizes[i],
          hitRatio: cache.hitRatio,
          low: cache.hitRatio.block,
          high: cache.hitRatio.block,
          refusedRequests: cache.refusedRequests,
        });
      }
    }
  });

  test("the offline bound is a curve that no other exceeds", async () => {
    const { curves } = await json(newFolder(), [...example, "--blocks", "500,2000", "--bound", "--metric", "token"]);
    const [lru, bound] = curves;
    expect(bound).toMatchObject({ index: "hash-table", eviction: "bound", method: "bound" });
    bound.points.forEach(({ hitRatio, low, high }: (typeof bound.points)[number], i: number) => {
      expect(high).toBe(hitRatio.token);
      expect(low).toBeLessThanOrEqual(high);
      expect(lru.points[i].hitRatio.token).toBeLessThanOrEqual(high);
    });
  });

  test("the table has a row for each size and the sizes that refuse requests", async () => {
    const { code, stdout } = await kvlab(newFolder(), [
      ...example,
      "--blocks",
      "100,50%",
      "--rule",
      "free-order=reverse,forward",
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^example \(built-in\): 300 requests/);
    expect(stdout).toMatch(/free-order=reverse {2}free-order=forward/);
    expect(stdout).toMatch(/\n +100 +[\d.]+ % +0\.\d{4} +0\.\d{4}\n/);
    expect(stdout).toMatch(/Caches of up to 100 blocks are smaller than some requests, which they refuse: \d+/);
  });

  test("an estimate from a sample is stated with its interval", async () => {
    const { code, stdout } = await kvlab(newFolder(), [...example, "--blocks", "2000,50%", "--sample", "50%"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/\n +2,000 +[\d.]+ % +0\.\d{4} ± 0\.\d{4}\n/);
    expect(stdout).toMatch(/Estimated from \d+ requests in \d+ of \d+ groups/);
  });

  test.each([
    [["--sample", "0%"], '--sample is "0%", expected a percentage below 100 such as 10%'],
    [["--sample", "10%", "--bound"], "--bound and --sample exclude each other"],
    [["--sample", "10%", "--metric", "anyResidentBlock"], "--metric anyResidentBlock has no estimate of its error"],
    [["--blocks", "unlimited"], "--blocks contains unlimited, expected sizes"],
    [["--blocks", "10,0"], '--blocks is "0", expected a whole number from 1'],
    [["--eviction", "lrv"], 'unknown eviction policy "lrv"'],
    [["--metric", "blok"], '--metric is "blok", did you mean "block"?'],
    [["--warmup", "300"], "--warmup is 300, the trace has only 300 requests"],
  ])("%j is refused in one line", async (args, message) => {
    expect(await refusal(newFolder(), [...example, ...args])).toContain(message);
  });
});
