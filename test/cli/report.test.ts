import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { RunReport } from "../../lab/output/report.ts";
import { hasRecordedTraces, recordedTracePath } from "../support/recordings.ts";
import { json, kvlab, newFolder } from "./program.ts";

const count = z.number().int().min(0);
const limit = z.union([count, z.literal("unlimited")]);
const share = z.number().min(0).max(1);
const counts = <Name extends string>(...names: Name[]) => z.record(z.enum(names), count);

/** The contract with other programs. Fields may be added, so objects are not strict; none may be removed. */
const runSchema = z.object({
  schema: z.literal("run/1"),
  kvlab: z.string().regex(/^\d+\.\d+\.\d+/),
  trace: z.object({
    files: z.array(z.string()),
    format: z.string(),
    requests: count,
    inputTokens: count,
    outputTokens: count,
    unitTokens: count,
  }),
  policy: z.object({
    preset: z.null(),
    index: z.string(),
    eviction: z.string(),
    allocator: z.string(),
    scheduler: z.string(),
    rules: z.strictObject({
      "match-limit": z.string(),
      "full-hit": z.string(),
      "drop-blocks": count,
      publish: z.string(),
      "cache-generated": z.string(),
      duplicates: z.string(),
      "same-step": z.string(),
      victims: z.string(),
      "victim-unit": z.string(),
      "node-match": z.string(),
      "hit-compute": z.string(),
      "evict-amount": z.string(),
      "free-order": z.string(),
      "free-queue": z.string(),
      partial: z.string(),
      "store-tail": z.string(),
      reserve: z.string(),
      "failed-admission": z.string(),
      collision: z.string(),
      share: z.string(),
      "max-entries": limit,
      "prefix-blocks": limit,
      "pin-blocks": count,
    }),
    blockTokens: count,
    blocks: count.nullable(),
  }),
  target: z.literal("cache"),
  seed: count,
  cache: z.object({
    lookups: count,
    lookupBlocks: count,
    hitBlocks: count,
    lookupTokens: count,
    hitTokens: count,
    hitRatio: z.strictObject({
      block: share,
      token: share,
      requestMeanBlock: share,
      requestMeanToken: share,
      fullBlock: share,
      anyResidentBlock: share,
    }),
    insertedBlocks: count,
    evictedBlocks: count,
    missTokens: counts(
      "never-seen",
      "evicted",
      "past-hole",
      "shorter-than-block",
      "other-namespace",
      "not-yet-computed",
      "match-limit",
    ),
    refusedRequests: count,
    fragmentation: z.object({ allocations: count, blocks: count, runs: count, largestFreeRun: count }).nullable(),
  }),
  latency: z.null(),
  throughput: z.null(),
  wallMs: z.number().positive(),
  blockRefsPerS: z.number().positive(),
});

/** Two requests that share a block of 512 tokens, a third of four blocks. */
const lines = [
  { timestamp: 0, input_length: 1000, output_length: 10, hash_ids: [7, 8] },
  { timestamp: 5, input_length: 700, output_length: 10, hash_ids: [7, 9] },
  { timestamp: 9, input_length: 2048, output_length: 10, hash_ids: [1, 2, 3, 4] },
];
function smallTrace(): { folder: string; file: string } {
  const folder = newFolder();
  writeFileSync(join(folder, "small.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return { folder, file: "small.jsonl" };
}

async function table(path: string) {
  const bytes = readFileSync(path);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  return await parquetReadObjects({ file: file as ArrayBuffer });
}

describe("replay --json", () => {
  test("prints schema run/1, with metrics of a trace that are derived by hand", async () => {
    const { folder, file } = smallTrace();
    const report = runSchema.parse(await json(folder, ["replay", file, "--blocks", "100"]));
    expect(report.trace).toEqual({
      files: ["small.jsonl"],
      format: "mooncake",
      requests: 3,
      inputTokens: 3748,
      outputTokens: 30,
      unitTokens: 512,
    });
    expect(report.policy).toMatchObject({ index: "hash-table", eviction: "lru", blockTokens: 512, blocks: 100 });
    expect(report.cache).toMatchObject({ lookups: 3, lookupBlocks: 8, hitBlocks: 1, hitTokens: 512, evictedBlocks: 0 });
    expect(report.cache.hitRatio.block).toBe(1 / 8);
    expect(report.cache.missTokens["never-seen"]).toBe(3748 - 512);
  });

  test("has null blocks for an unlimited cache, and all rules in effect", async () => {
    const { folder, file } = smallTrace();
    const args = ["replay", file, "--blocks", "unlimited", "--rule", "free-order=forward"];
    const report = runSchema.parse(await json(folder, args));
    expect(report.policy.blocks).toBeNull();
    expect(report.policy.rules["free-order"]).toBe("forward");
    expect(runSchema.parse(await json(folder, ["replay", file, "--eviction", "unbounded"])).policy.blocks).toBeNull();
  });

  test("counts requests that are longer than the cache, also in the summary with the reason", async () => {
    const { folder, file } = smallTrace();
    const report = await json(folder, ["replay", file, "--blocks", "3"]);
    expect(report.cache).toMatchObject({ refusedRequests: 1, lookups: 3, lookupBlocks: 8, hitBlocks: 1 });
    const { stdout } = await kvlab(folder, ["replay", file, "--blocks", "3", "--no-save"]);
    expect(stdout.replaceAll("\n", " ")).toContain(
      "1 of 3 requests were refused, because they are longer than the cache of 3 blocks.",
    );
  });

  test("has fragmentation if the allocator measures it, also in the summary", async () => {
    const { folder, file } = smallTrace();
    const args = ["replay", file, "--blocks", "5", "--eviction", "fifo"];
    expect(runSchema.parse(await json(folder, args)).cache.fragmentation).toBeNull();
    // Blocks 0 and 1; then 2; then 0 and 1, after their eviction, with 3 and 4.
    const report = runSchema.parse(await json(folder, [...args, "--allocator", "token"]));
    expect(report.cache.fragmentation).toEqual({ allocations: 3, blocks: 7, runs: 4, largestFreeRun: 0 });
    const { stdout } = await kvlab(folder, [...args, "--allocator", "token", "--no-save"]);
    expect(stdout).toContain("\n  fragmentation  1.3 runs per allocation, largest free run 0 blocks\n");
    const { stdout: warm } = await kvlab(folder, [...args, "--allocator", "token", "--no-save", "--warmup", "1"]);
    expect(warm).toMatch(/largest free run 0 blocks \(with\s+warm-up\)\n/);
  });

  test("excludes the warm-up from the metrics", async () => {
    const { folder, file } = smallTrace();
    const report = await json(folder, ["replay", file, "--blocks", "9", "--warmup", "1"]);
    expect(report.cache).toMatchObject({ lookups: 2, lookupBlocks: 6, hitBlocks: 1 });
  });

  test("applies --limit and --block-size", async () => {
    const { folder, file } = smallTrace();
    const report = await json(folder, ["replay", file, "--blocks", "9", "--limit", "2", "--block-size", "1024"]);
    expect(report.trace).toMatchObject({ requests: 2, inputTokens: 1700, unitTokens: 512 });
    expect(report.policy.blockTokens).toBe(1024);
    expect(report.cache).toMatchObject({ lookupBlocks: 2, hitBlocks: 0 });
  });

  test("is the same except for times with --repeat and --audit", async () => {
    const { folder } = smallTrace();
    const { wallMs: _, blockRefsPerS: __, ...once } = await json(folder, ["replay", "--limit", "400", "--no-save"]);
    const args = ["replay", "example", "--limit", "400", "--repeat", "3", "--audit", "--no-save"];
    const { wallMs: ___, blockRefsPerS: ____, ...again } = await json(folder, args);
    expect(again).toEqual(once);
  });
});

describe("a run's directory", () => {
  test("is replaced by the same bytes when the command is run again", async () => {
    const { folder } = smallTrace();
    const args = ["replay", "--limit", "500", "--events"];
    const first = await json(folder, args);
    const [id] = readdirSync(join(folder, "runs"));
    expect(id).toMatch(/^example-hash-table-lru-\d+-[0-9a-f]{8}$/);
    const directory = join(folder, "runs", id);
    const names = ["events.parquet", "kv-events.jsonl", "requests.parquet", "run.json", "steps.parquet"];
    expect(readdirSync(directory).sort()).toEqual(names);
    const before = names.map((name) => readFileSync(join(directory, name)));
    const second = await json(folder, args);
    expect(readdirSync(join(folder, "runs"))).toEqual([id]);
    for (const report of [first, second]) for (const time of ["wallMs", "blockRefsPerS"]) delete report[time];
    expect(second).toEqual(first);
    names.forEach((name, i) => {
      if (name !== "run.json") expect(readFileSync(join(directory, name)).equals(before[i]), name).toBe(true);
    });
  });

  test("contains the report with the command that reproduces it, and tables for other programs", async () => {
    const { folder, file } = smallTrace();
    const report = await json(folder, ["replay", file, "--blocks", "3", "--events", "--out", "here/run"]);
    const saved = JSON.parse(readFileSync(join(folder, "here/run/run.json"), "utf8"));
    expect(runSchema.parse(saved)).toEqual(runSchema.parse(report));
    expect(saved.command).toBe(
      "kvlab replay small.jsonl --format mooncake --index hash-table --eviction lru --allocator block " +
        "--scheduler naive --blocks 3 --block-size 512 --seed 1 --events",
    );
    const requests = await table(join(folder, "here/run/requests.parquet"));
    expect(requests).toEqual([
      row(0, 0n, 1000, 2, 0, 0, false),
      row(1, 5_000_000n, 700, 2, 1, 512, false),
      row(2, 9_000_000n, 2048, 4, 0, 0, true),
    ]);
    expect(await table(join(folder, "here/run/steps.parquet"))).toEqual([
      { step: 0, request: 0, requests: 1, cachedTokens: 0, computedTokens: 1000 },
      { step: 1, request: 1, requests: 1, cachedTokens: 512, computedTokens: 188 },
    ]);
    const events = await table(join(folder, "here/run/events.parquet"));
    expect(events.filter(({ event }) => event === "hit")).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ event: "refuse", request: 2 });
  });

  const row = (request: number, arrivalNs: bigint, inputTokens: number, ...rest: [number, number, number, boolean]) => {
    const [promptBlocks, hitBlocks, hitTokens, refused] = rest;
    return {
      request,
      arrivalNs,
      inputTokens,
      outputTokens: 10,
      promptBlocks,
      session: 0,
      hitBlocks,
      hitTokens,
      refused,
      warmup: false,
    };
  };

  test("is not written with --no-save", async () => {
    const { folder, file } = smallTrace();
    await json(folder, ["replay", file, "--no-save"]);
    expect(readdirSync(folder)).toEqual([file]);
  });
});

describe("compare", () => {
  test("prints every combination and both bounds as schema compare/1", async () => {
    const { folder } = smallTrace();
    const args = ["compare", "--limit", "300", "--eviction", "lru,fifo", "--blocks", "50,10%"];
    const { schema, runs } = await json(folder, [...args, "--rule", "free-order=reverse,forward"]);
    expect(schema).toBe("compare/1");
    const reports = runs.map((run: unknown) => runSchema.parse(run)) as z.infer<typeof runSchema>[];
    const named = (name: string) => reports.filter(({ policy }) => policy.eviction === name);
    expect(["lru", "fifo", "belady", "unbounded"].map((name) => named(name).length)).toEqual([4, 4, 4, 2]);
    expect(reports).toHaveLength(14);
    for (const { policy, cache } of reports) {
      const optimum = named("belady").find((run) => run.policy.blocks === policy.blocks) ?? named("unbounded")[0];
      expect(cache.hitBlocks).toBeLessThanOrEqual(optimum.cache.hitBlocks);
    }
    expect(readdirSync(folder)).toEqual(["small.jsonl"]);
  });

  test("prints one table of 80 columns with the best policy marked, without colours if stdout is no terminal", async () => {
    const { folder } = smallTrace();
    const { stdout, stderr, code } = await kvlab(folder, ["compare", "--limit", "1000"]);
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(stdout).not.toContain("\x1b");
    expect(stdout).toMatch(/eviction +1 % +5 % +10 % +25 % +50 %/);
    for (const policy of ["fifo", "lru", "random", "belady", "unbounded"])
      expect(stdout).toMatch(new RegExp(`^ +${policy}( +0\\.\\d{4}[*≈]?){5}$`, "m"));
    expect(stdout.match(/\d\*/g)?.length).toBeGreaterThanOrEqual(5);
    expect(stdout).toMatch(/The best online policy reaches \d+ % to \d+ % of the bound\./);
  });

  test("shows configurations with equal results in one row, and marks those within noise of the best", async () => {
    const { folder } = smallTrace();
    const { stdout } = await kvlab(folder, ["compare", "--limit", "1000", "--eviction", "lru,priority,lfu,slru"]);
    expect(stdout).toMatch(/^ {2}lru \(\+1 equal\)( +0\.\d{4}[*≈]?){5}$/m);
    expect(stdout).not.toMatch(/^ {2}priority /m);
    expect(stdout).toContain("\nEqual: lru, priority.\n");
    expect(stdout).toMatch(/0\.\d{4}≈/);
    expect(stdout).toContain("≈ marks policies within noise of the best one");
  });

  test("the order of ties and the seed make one row, with the lowest and the highest hit ratio", async () => {
    const { folder } = smallTrace();
    const args = ["compare", "--limit", "1000", "--eviction", "lru,random", "--blocks", "200", "--seed", "1,2"];
    const { stdout, code } = await kvlab(folder, [...args, "--rule", "free-order=reverse,forward"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ {2}lru +0\.\d{4}–0\.\d{4}\*$/m);
    expect(stdout).toMatch(/^ {2}random +0\.\d{4}–0\.\d{4}$/m);
    expect(stdout).toMatch(/^ {2}random +−\d+\.\d to −\d+\.\d %$/m);
    expect(stdout).toContain("low–high: the lowest and the highest hit ratio over the orders");
    const seeds = ["--first-difference", "--target cpu"].map((option) =>
      kvlab(folder, [...args, ...option.split(" ")]),
    );
    const [decisions, served] = await Promise.all(seeds);
    expect(decisions.stderr).toBe("kvlab: --seed has 2 values, expected one with --first-difference\n");
    expect(served.stderr).toBe("kvlab: --seed has 2 values, expected one with --target cpu\n");
  });

  test("simulations that differ only in the seed make one row, with the least and the largest value of each metric", async () => {
    const { folder } = smallTrace();
    const args = ["compare", "--limit", "300", "--eviction", "lru,random", "--blocks", "10%", "--target", "sim"];
    const seeds = ["--rate", "8", "--seed", "1,2,3"];
    const { stdout, code } = await kvlab(folder, [...args, ...seeds]);
    expect(code).toBe(0);
    expect(stdout.match(/^ {2}lru +0\.\d{4}\* +[\d.]+ m?s\*/gm)).toHaveLength(1);
    expect(stdout.match(/^ {2}random +0\.\d{4}–0\.\d{4} /gm)).toHaveLength(1);
    expect(stdout).toContain("A–B: the least and the largest value of the seeds");
    const one = await kvlab(folder, [...args, "--rate", "8", "--seed", "2"]);
    expect(one.stdout).not.toContain("–B");
  });

  test("--json has the differences from lru and from the best policy, with their intervals", async () => {
    const { folder } = smallTrace();
    const { runs } = await json(folder, ["compare", "--limit", "1000", "--eviction", "lfu,random", "--blocks", "200"]);
    const [lfu, random, ...bounds] = runs as RunReport[];
    const { gainOverLru, behindBest, ...about } = lfu.uncertainty!;
    expect(about).toEqual({ metric: "block", sessions: 436, sessionsInferred: false });
    expect(gainOverLru.value).toBeCloseTo(lfu.cache.hitRatio.block - lfu.offlineBound!.lru.block!, 12);
    expect(behindBest).toEqual({ value: 0, low: 0, high: 0 });
    const behind = random.uncertainty!.behindBest;
    expect(behind.value).toBeCloseTo(lfu.cache.hitRatio.block - random.cache.hitRatio.block, 12);
    expect(behind.low).toBeGreaterThan(0);
    expect(behind.high).toBeGreaterThan(behind.value);
    for (const bound of bounds) expect(bound.uncertainty).toBeUndefined();
  });

  test("shows the capacities in GiB of the model's keys and values", async () => {
    const { folder } = smallTrace();
    const args = ["compare", "--limit", "100", "--eviction", "lru", "--blocks", "8192"];
    // 128 KiB a token, times 16 tokens a block.
    expect((await kvlab(folder, args)).stdout).toMatch(/^ {2}GiB +16\.0$/m);
    const larger = (await kvlab(folder, [...args, "--model", "llama-3.1-70b"])).stdout;
    expect(larger).toMatch(/^ {2}GiB +40\.0$/m);
    expect(larger).toContain("GiB: keys and values of llama-3.1-70b");
  });

  test("marks no policy and divides nothing if there are no hits", async () => {
    const folder = newFolder();
    writeFileSync(join(folder, "new.jsonl"), `${JSON.stringify({ ...lines[2] })}\n`);
    const { stdout } = await kvlab(folder, ["compare", "new.jsonl", "--blocks", "2,4"]);
    expect(stdout).not.toMatch(/0\.0000\*/);
    expect(stdout).toMatch(/best\/bound +– +–\n/);
  });

  test("saves each run below --out", async () => {
    const { folder } = smallTrace();
    await json(folder, ["compare", "--limit", "100", "--eviction", "lru", "--blocks", "50", "--out", "all"]);
    const saved = readdirSync(join(folder, "all"));
    expect(saved.map((id) => id.replace(/-[0-9a-f]{8}$/, "")).sort()).toEqual([
      "example-hash-table-belady-50",
      "example-hash-table-lru-50",
      "example-hash-table-unbounded-unlimited",
    ]);
    for (const id of saved) runSchema.parse(JSON.parse(readFileSync(join(folder, "all", id, "run.json"), "utf8")));
  });
});

describe.runIf(hasRecordedTraces)("with the recorded traces", () => {
  test("LRU over the conversation trace with 10,000 blocks hits the published 0.2116", async () => {
    const file = recordedTracePath("mooncake/conversation_trace.jsonl.gz");
    const args = ["replay", file, "--index", "hash-table", "--eviction", "lru", "--blocks", "10000", "--no-save"];
    const report = runSchema.parse(await json(newFolder(), args));
    expect(report.cache.hitRatio.block.toFixed(4)).toBe("0.2116");
    expect(report.trace).toMatchObject({ requests: 12_031, inputTokens: 144_793_823, outputTokens: 4_122_048 });
    expect(report.cache.lookupBlocks).toBe(288_500);
  });
});
