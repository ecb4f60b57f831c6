import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { randomConfig, randomWeights } from "../../engine/model/random.ts";
import { checkpointOf } from "../support/checkpoints.ts";
import { ended, fromSource, newFolder, refusal, start } from "./program.ts";

const started = (folder: string, args: readonly string[]) =>
  start(folder, args, { XDG_CACHE_HOME: join(folder, "cache") });

const few = ["example", "--limit", "12", "--target", "cpu", "--scheduler", "naive", "--threads", "1"];

test("each combination on a real engine starts with an empty cache, and has a row and a folder", async () => {
  const folder = newFolder();
  const options = ["--index", "hash-table,none", "--blocks", "30%,2000", "--rate", "4", "--bits", "8"];
  const { code, stdout, stderr } = await ended(
    started(folder, ["compare", ...few, ...options, "--eviction", "lru", "--out", "all", "--json"]),
  );
  expect([code, stderr]).toEqual([0, ""]);
  const { schema, runs } = JSON.parse(stdout);
  expect(schema).toBe("compare/1");
  const rows = (runs as { policy: { index: string; blocks: number }; cache: { hitTokens: number } }[]).map(
    ({ policy, cache }) => [policy.index, policy.blocks, cache.hitTokens > 0],
  );
  const [, small] = rows[0] as [string, number, boolean];
  expect(rows).toEqual([
    ["hash-table", small, rows[0][2]],
    ["hash-table", 2000, true],
    ["none", small, false],
    ["none", 2000, false],
  ]);
  const saved = readdirSync(join(folder, "all")).map((name) =>
    JSON.parse(readFileSync(join(folder, "all", name, "run.json"), "utf8")),
  );
  expect(saved).toHaveLength(4);
  for (const { command, ...report } of saved) {
    expect(runs).toContainEqual(report);
    expect(report.engine).toMatchObject({ bits: 8, threads: 1, requestsPerS: 4 });
    const commandArgs = command.split(" ").slice(1);
    const again = await ended(started(folder, [...commandArgs, "--no-save", "--json"]));
    expect(JSON.parse(again.stdout).cache).toEqual(report.cache);
  }
}, 240_000);

test("the table names model and device, and the differing options", async () => {
  const folder = newFolder();
  const { stdout } = await ended(
    started(folder, ["compare", ...few, "--preset", "vllm,sglang", "--capacity", "2MiB", "--slo", "ttft=10s"]),
  );
  expect(stdout).toMatch(/12 requests, 7,039 prompt tokens; random:tiny on the CPU, 1\s+thread\n/);
  expect(stdout).toMatch(/\n {2}policy +hit ratio +TTFT p50 +p99 +TPOT +latency +requests\/s/);
  expect(stdout).toMatch(/\n {2}policy +refused +drain +SLO met +goodput\/s +limit/);
  for (const policy of ["vllm", "sglang"]) expect(stdout).toMatch(new RegExp(`\\n {2}${policy} +0\\.\\d{4}`));
  expect(readdirSync(folder)).toEqual(["cache"]);
});

test("the files of a model are opened once for any number of rates", async () => {
  const folder = newFolder();
  const config = randomConfig("tiny");
  const model = checkpointOf(config, randomWeights(config, 1), { shards: 9 });
  const rates = Array.from({ length: 40 }, (_, i) => 100 + i);
  const args = ["compare", "example", "--limit", "2", "--target", "cpu", "--blocks", "100", "--preset", "vllm"];
  // From source, because the modules of a built program are opened at the same time.
  const few = ["-c", 'ulimit -n 256; exec "$@"', "sh", process.execPath, ...fromSource()];
  const env = { ...process.env, XDG_CACHE_HOME: join(folder, "cache") };
  const child = spawn("sh", [...few, ...args, "--model", model, "--rate", rates.join(), "--json"], {
    cwd: folder,
    env,
  });
  const { code, stdout, stderr } = await ended(child);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(JSON.parse(stdout).runs).toHaveLength(rates.length);
});

test("a signal ends the comparison and keeps the complete runs", async () => {
  const folder = newFolder();
  const args = ["compare", "example", "--limit", "60", "--target", "cpu", "--blocks", "1000", "--threads", "1"];
  const child = started(folder, [...args, "--preset", "vllm,sglang,lmdeploy,trt-llm", "--out", "all", "--json"]);
  const end = ended(child);
  const whole = () =>
    readdirSync(folder).includes("all") && readdirSync(join(folder, "all")).filter((n) => n[0] !== ".");
  for (let done = whole(); child.exitCode === null && !(done && done.length >= 2); done = whole()) await sleep(20);
  child.kill("SIGINT");
  const { code, stdout, stderr } = await end;
  const { interrupted, runs } = JSON.parse(stdout);
  expect(interrupted.of).toBe(4);
  expect(interrupted.runsDone).toBe(runs.length);
  expect(runs.length).toBeLessThan(4);
  expect(stderr).toBe(`kvlab: interrupted after ${runs.length} of 4 runs; they are saved in all\n`);
  expect(code).toBe(130);
  const kept = readdirSync(join(folder, "all"));
  expect(kept).toHaveLength(runs.length);
  for (const name of kept)
    expect(readdirSync(join(folder, "all", name)).sort()).toEqual([
      "requests.parquet",
      "run.json",
      "series.parquet",
      "steps.parquet",
    ]);
});

describe.concurrent("options that an engine does not support are refused before any run", () => {
  const cases: [args: string, message: RegExp][] = [
    ["--replicas 2", /^--replicas needs --target sim$/],
    ["--router prefix-aware,round-robin", /^--router needs --target sim$/],
    ["--gpu h200", /^--gpu needs --target sim$/],
    ["--metric token", /^--metric needs --target cache: with --target cpu the table shows several metrics$/],
    ["--first-difference", /^--first-difference needs --target cache$/],
    ["--eviction lru,unbounded", /^an engine has no unlimited cache/],
    ["--blocks 1000,unlimited", /^an engine has no unlimited cache/],
    ["--pace none --rate 1,2", /^--pace none and --rate exclude each other/],
    ["--model random:tiny-gpt2", /has 1024 positions$/],
    ["--capacity 1KiB", /less than the \d+ bytes of one block/],
    ["--blocks 1000,90000000", /GiB for 90000000 blocks/],
  ];
  test.each(cases)("kvlab compare --target cpu %s", async (args, message) => {
    expect(await refusal(newFolder(), ["compare", "--target", "cpu", ...args.split(" ")])).toMatch(message);
  });
});
