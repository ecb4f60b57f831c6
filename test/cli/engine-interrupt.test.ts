import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parquetReadObjects } from "hyparquet";
import { expect, test } from "vitest";
import { ended, newFolder, start, startReporting, untilDoing } from "./program.ts";

/** Long enough that it is not finished when the signal arrives. */
const long = ["replay", "example", "--limit", "400", "--target", "cpu", "--blocks", "3000", "--threads", "1"];

function served(folder: string, args: readonly string[]): ChildProcess {
  return start(folder, args, { XDG_CACHE_HOME: join(folder, "cache") });
}

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** Waits until the timeline, which is written in pieces, has many steps. */
async function manySteps(folder: string, child: ChildProcess, bytes = 1 << 19): Promise<void> {
  const path = join(folder, `time.json.${child.pid}.tmp`);
  while (sizeOf(path) < bytes && child.exitCode === null) await sleep(20);
}

async function rowsOf(path: string) {
  return await parquetReadObjects({ file: new Uint8Array(readFileSync(path)).buffer as ArrayBuffer });
}

/** Prompts without a common prefix, whose steps take seconds. */
function longPrompts(count: number): string {
  const request = (i: number) => {
    const ids = Array.from({ length: 3500 }, (_, at) => (at * (i + 3)) % 250);
    return { input_toks: 3500, output_toks: 1, arrival_time_ns: 0, input_tok_ids: ids, output_tok_ids: [8] };
  };
  return Array.from({ length: count }, (_, i) => JSON.stringify(request(i))).join("\n");
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

test.each([
  ["SIGINT", ["--warmup", "2", "--slo", "ttft=1s"]],
  ["SIGTERM", ["--loop", "closed", "--preset", "sglang", "--output-lengths", "free"]],
] as const)("%s ends a run with metrics and files of the finished requests", async (signal, options) => {
  const folder = newFolder();
  const child = served(folder, [...long, ...options, "--timeline", "time.json", "--out", "run", "--json"]);
  const end = ended(child);
  await manySteps(folder, child);
  child.kill(signal);
  const { code, stdout, stderr } = await end;
  const report = JSON.parse(stdout);
  const { requestsDone } = report.interrupted;
  expect(report.interrupted.of).toBe(400);
  expect(stderr).toBe(`kvlab: interrupted after ${requestsDone} of 400 requests; they are saved in run\n`);
  expect(code).toBe(130);

  const { command, ...saved } = JSON.parse(readFileSync(join(folder, "run/run.json"), "utf8"));
  expect(saved).toEqual(report);
  expect(command).toContain("--target cpu");
  expect(readdirSync(join(folder, "run")).sort()).toEqual([
    "requests.parquet",
    "run.json",
    "series.parquet",
    "steps.parquet",
  ]);
  const requests = await rowsOf(join(folder, "run/requests.parquet"));
  expect(requests).toHaveLength(requestsDone);
  const numbers = requests.map((row) => Number(row["request"]));
  expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
  for (const { arrivalNs, admittedNs, firstTokenNs, finishedNs } of requests)
    expect([arrivalNs >= 0n, admittedNs >= arrivalNs, firstTokenNs > admittedNs, finishedNs >= firstTokenNs]).toEqual(
      Array(4).fill(true),
    );

  const counted = requests.filter((row) => row["warmup"] === false);
  const ms = (row: (typeof counted)[number], to: string) => Number(row[to] - row["arrivalNs"]) / 1e6;
  expect(report.latency.e2eMs.mean).toBeCloseTo(sum(counted.map((row) => ms(row, "finishedNs"))) / counted.length, 6);
  const { makespanS, requestsPerS, outputTokensPerS } = report.throughput;
  expect(requestsPerS * makespanS).toBeCloseTo(counted.length, 6);
  expect(outputTokensPerS * makespanS).toBeCloseTo(sum(counted.map((row) => Number(row["outputTokens"]))), 6);
  const ends = counted.map((row) => Number(row["finishedNs"]));
  const begins = counted.map((row) => Number(row["arrivalNs"]));
  expect(makespanS).toBeCloseTo((Math.max(...ends) - Math.min(...begins)) / 1e9, 6);
  if (report.slo) {
    const kept = counted.filter((row) => ms(row, "firstTokenNs") <= 1000);
    expect(report.slo.attained).toBeCloseTo(kept.length / counted.length, 6);
  }
  const steps = await rowsOf(join(folder, "run/steps.parquet"));
  expect(steps.length).toBeGreaterThan(100);
  for (const { durationNs } of steps) expect(durationNs).toBeGreaterThan(0n);
  const series = await rowsOf(join(folder, "run/series.parquet"));
  // Some warm-up requests may finish after the first measured arrival.
  const late = sum(series.map((row) => Number(row["finished"]))) - counted.length;
  expect([late >= 0, late <= report.warmup]).toEqual([true, true]);
  expect(JSON.parse(readFileSync(join(folder, "time.json"), "utf8")).traceEvents.length).toBeGreaterThan(100);
});

test("a run interrupted during warm-up has no metrics", async () => {
  const folder = newFolder();
  const child = served(folder, [...long, "--warmup", "399", "--timeline", "time.json", "--slo", "e2e=1s", "--json"]);
  const end = ended(child);
  await manySteps(folder, child);
  child.kill("SIGINT");
  const { code, stdout, stderr } = await end;
  const report = JSON.parse(stdout);
  expect(code).toBe(130);
  expect(report.interrupted.requestsDone).toBeGreaterThan(0);
  expect(report.latency).toEqual({ ttftMs: null, tpotMs: null, e2eMs: null, queueMs: null });
  expect(report.throughput).toEqual({ requestsPerS: 0, inputTokensPerS: 0, outputTokensPerS: 0, makespanS: 0 });
  expect(report.cache).toMatchObject({ lookups: 0, hitTokens: 0, insertedBlocks: 0, evictedBlocks: 0 });
  expect(report.slo).toEqual({ e2eMs: 1000, attained: 0, goodputRequestsPerS: 0 });
  // Its folder is not that of a complete run.
  const [run, ...more] = readdirSync(join(folder, "runs"));
  expect(run).toMatch(/^example-cpu-random_tiny-hash-table-lru-3000-\w{8}-interrupted$/);
  expect(more).toEqual([]);
  expect(stderr).toContain(`; they are saved in runs/${run}\n`);
});

test("a signal ends the wait for a request that arrives in an hour", async () => {
  const folder = newFolder();
  const request = {
    input_toks: 40,
    output_toks: 60,
    input_tok_ids: Array(40).fill(7),
    output_tok_ids: Array(60).fill(8),
  };
  const lines = Array.from({ length: 21 }, (_, i) => ({ ...request, arrival_time_ns: i < 20 ? 0 : 3600e9 }));
  writeFileSync(join(folder, "trace.jsonl"), lines.map((line) => JSON.stringify(line)).join("\n"));
  const options = "--target cpu --blocks 500 --scheduler naive --pace real --timeline time.json --no-save".split(" ");
  const child = served(folder, ["replay", "trace.jsonl", ...options]);
  const end = ended(child);
  await manySteps(folder, child, 1 << 16);
  // Until the timeline stops growing.
  for (let before = -1, now = 0; before !== now; before = now, now = sizeOf(join(folder, `time.json.${child.pid}.tmp`)))
    await sleep(1000);
  child.kill("SIGINT");
  const { code, stdout, stderr } = await end;
  expect(stderr).toBe("kvlab: interrupted after 20 of 21 requests; not saved\n");
  expect(code).toBe(130);
  expect(stdout).toContain("interrupted: metrics cover the 20 requests that had finished");
});

test("a signal during the model's step ends a run with a plug-in file", async () => {
  const folder = newFolder();
  const code = `export default { create: () => ({ add() { console.log("ended"); }, remove() {}, victim() {} }) };`;
  writeFileSync(join(folder, "mine.ts"), code);
  writeFileSync(join(folder, "trace.jsonl"), longPrompts(40));
  const options = "--target cpu --model random:15m --scheduler naive --blocks 1500 --eviction ./mine.ts --threads 1";
  const child = served(folder, ["replay", "trace.jsonl", ...options.split(" "), "--out", "run"]);
  const end = ended(child);
  await new Promise((resolve) => child.stderr?.once("data", resolve));
  // The first request has finished, and the step of the next one takes seconds.
  await sleep(200);
  child.kill("SIGINT");
  const { code: exitCode, stdout, stderr } = await end;
  expect(stderr).toMatch(/^(ended\n)+kvlab: interrupted after \d+ of 40 requests; they are saved in run\n$/);
  expect(exitCode).toBe(130);
  expect(stdout).toContain("Saved in run");
  expect(readdirSync(folder).sort()).toEqual(["cache", "mine.ts", "run", "trace.jsonl"]);
});

test("a second signal ends the program in the middle of a step and leaves no files", async () => {
  const folder = newFolder();
  writeFileSync(join(folder, "trace.jsonl"), longPrompts(400));
  const options = "--target cpu --model random:15m --index none --scheduler naive --blocks 500 --timeline time.json";
  const child = served(folder, ["replay", "trace.jsonl", ...options.split(" "), "--out", "run"]);
  const end = ended(child);
  while (!readdirSync(folder).some((name) => name.startsWith("time.json"))) await sleep(20);
  await sleep(5000);
  child.kill("SIGINT");
  child.kill("SIGTERM");
  const { code, stdout, stderr } = await end;
  // Ended by the signal's default action, which shells also report as 130.
  expect([code, child.signalCode]).toEqual([null, "SIGINT"]);
  expect({ stdout, stderr }).toEqual({ stdout: "", stderr: "" });
  expect(readdirSync(folder).sort()).toEqual(["cache", "trace.jsonl"]);
});

test("an interrupted run of --repeat is not saved", async () => {
  const folder = newFolder();
  const args = [...long.map((each) => (each === "400" ? "40" : each)), "--repeat", "100000"];
  const child = startReporting(folder, args, { XDG_CACHE_HOME: join(folder, "cache") });
  const end = ended(child);
  await untilDoing(child, "serving");
  child.kill("SIGINT");
  expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
  expect(readdirSync(folder)).toEqual(["cache"]);
});
