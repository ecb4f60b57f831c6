import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { describe, expect, test } from "vitest";
import { ended, json, kvlab, newFolder, refusal, startReporting, untilDoing } from "./program.ts";

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

  test("threads do not change the result, for a sample and a policy with options, too", async () => {
    const lists = ["--blocks", "500,2000", "--eviction", "fifo,ttl:ttl-s=60", "--sample", "60%"];
    const [one, two] = await Promise.all(
      ["1", "2"].map((threads) => json(newFolder(), [...example, ...lists, "--threads", threads])),
    );
    expect(one.curves).toHaveLength(2);
    expect(two).toEqual(one);
  });

  test("SIGINT during replays in threads ends it with exit code 130, without files", async () => {
    const folder = newFolder();
    const lists = ["--eviction", "lirs,arc", "--threads", "2", "--out", "out"];
    const child = startReporting(folder, ["curve", ...lists]);
    const end = ended(child);
    await untilDoing(child, "computing curves");
    child.kill("SIGINT");
    expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
    expect(readdirSync(folder)).toEqual([]);
  });

  test("a policy of a user runs in the main thread", async () => {
    const folder = newFolder();
    await kvlab(folder, ["init", "policy", "mine"]);
    const args = ["--eviction", "./mine.ts", "--threads", "2", "--blocks", "500,2000"];
    const { curves } = await json(folder, [...example, ...args]);
    expect(curves[0]).toMatchObject({ eviction: "mine", method: "replay" });
    expect(curves[0].points[1].hitRatio.block).toBeGreaterThan(0);
  });

  test("--out has the document, a row for each point and a plot of each eight curves", async () => {
    const folder = newFolder();
    const policies = ["lru", "fifo", "lfu", "sieve", "clock", "slru", "s3-fifo", "2q"];
    const args = ["--eviction", policies.join(), "--blocks", "500,2000", "--bound", "--out", "out"];
    const report = await json(folder, [...example, ...args]);
    const names = ["curves-1.svg", "curves-2.svg", "curves.json", "curves.parquet"];
    expect(readdirSync(join(folder, "out")).sort()).toEqual(names);
    expect(JSON.parse(readFileSync(join(folder, "out/curves.json"), "utf8"))).toEqual(report);
    const rows = await parquetReadObjects({ file: await asyncBufferFromFile(join(folder, "out/curves.parquet")) });
    expect(rows).toHaveLength(18);
    const { hitRatio, low, high, refusedRequests } = report.curves[1].points[1];
    expect(rows[3]).toEqual({
      ...{ preset: "", index: "hash-table", eviction: "fifo", rules: "", seed: 1n, method: "replay", exact: true },
      blocks: 2000n,
      ...{ ...hitRatio, low, high, refusedRequests: BigInt(refusedRequests) },
    });
    expect(rows[16]).toMatchObject({ eviction: "bound", requestMeanToken: Number.NaN, refusedRequests: -1n });
    const svg = readFileSync(join(folder, "out/curves-1.svg"), "utf8");
    expect(svg.match(/<path class="c\d"/g)).toHaveLength(8);
    for (const name of policies) expect(svg).toContain(`>${name}</text>`);
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
      "match-limit=all,l-1",
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^example \(built-in\): 300 requests/);
    expect(stdout).toMatch(/match-limit=all {2}match-limit=l-1/);
    expect(stdout).toMatch(/\n +100 +[\d.]+ % +0\.\d{4} +0\.\d{4}\n/);
    expect(stdout).toMatch(/Caches of up to 100 blocks are smaller than some requests, which they refuse: \d+/);
  });

  test("the order of ties and the seed make a band, in the table and in the plot; the document has each curve", async () => {
    const folder = newFolder();
    const lists = ["--blocks", "500,2000", "--eviction", "lru,random", "--seed", "1,2", "--out", "out"];
    const { code, stdout } = await kvlab(folder, [...example, ...lists, "--rule", "free-order=reverse,forward"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/\n +blocks +share +lru +random\n/);
    expect(stdout).toMatch(/\n +500 +[\d.]+ % +0\.\d{4}–0\.\d{4} +0\.\d{4}–0\.\d{4}\n/);
    expect(stdout).toContain(
      "\nlow–high: the lowest and the highest hit ratio over both values of free-order\nand all seeds.\n",
    );
    const report = JSON.parse(readFileSync(join(folder, "out/curves.json"), "utf8"));
    expect(report.curves).toHaveLength(6);
    expect(report.bands).toMatchObject([
      { eviction: "lru", rules: [], curves: [0, 3], over: ["free-order"] },
      { eviction: "random", rules: [], curves: [1, 2, 4, 5], over: ["free-order", "seed"] },
    ]);
    const svg = readFileSync(join(folder, "out/curves.svg"), "utf8");
    expect(svg.match(/<path class="f\d" fill-opacity/g)).toHaveLength(2);
    expect(svg).toContain("bands: lowest to highest over free-order and seeds");
  });

  test("presets get the same number of tokens, and their points are those of their replays", async () => {
    const folder = newFolder();
    const { curves, blockTokens, metric } = await json(folder, [
      ...example,
      "--preset",
      "vllm,lmdeploy",
      "--blocks",
      "800,2000",
    ]);
    expect({ blockTokens, metric }).toEqual({ blockTokens: 16, metric: "token" });
    expect(curves).toMatchObject([{ preset: "vllm" }, { preset: "lmdeploy", blockTokens: 64 }]);
    for (const { preset, points, blockTokens: tokens = 16 } of curves) {
      const blocks = Math.floor((800 * 16) / tokens);
      const options = ["--limit", "300", "--preset", preset, "--blocks", `${blocks}`, "--no-save"];
      const { cache } = await json(folder, ["replay", ...options]);
      expect(points[0]).toMatchObject({ blocks: 800, hitRatio: cache.hitRatio });
    }
  });

  test("an estimate from a sample is stated with its interval", async () => {
    const { code, stdout } = await kvlab(newFolder(), [...example, "--blocks", "2000,50%", "--sample", "50%"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/\n +2,000 +[\d.]+ % +0\.\d{4} ± 0\.\d{4}\n/);
    expect(stdout).toMatch(/Estimated from \d+ requests in \d+ of \d+ groups/);
  });

  test.each([
    [["--rule", "victims=leaf"], "index hash-table does not support rule victims=leaf"],
    [["--threads", "0"], '--threads is "0", expected a whole number from 1 to 1024'],
    [["--out", "/dev/null/x"], "/dev/null/x"],
    [["--sample", "0%"], '--sample is "0%", expected a percentage below 100 such as 10%'],
    [["--sample", "10%", "--bound"], "--bound and --sample exclude each other"],
    [["--sample", "10%", "--metric", "anyResidentBlock"], "--metric anyResidentBlock has no estimate of its error"],
    [["--blocks", "unlimited"], "--blocks contains unlimited, expected sizes"],
    [["--blocks", "10,0"], '--blocks is "0", expected a whole number from 1 to 2147483647, or a percentage'],
    [["--seed", "1,x"], '--seed is "x", expected a whole number from 0 to 4294967295'],
    [["--seed", "1,1"], '--seed has "1" twice'],
    [["--preset", "vlm"], 'unknown preset "vlm"'],
    [["--eviction", "lrv"], 'unknown eviction policy "lrv"'],
    [["--metric", "blok"], '--metric is "blok", did you mean "block"?'],
    [["--warmup", "300"], "--warmup is 300, the trace has only 300 requests"],
  ])("%j is refused in one line", async (args, message) => {
    expect(await refusal(newFolder(), [...example, ...args])).toContain(message);
  });
});
