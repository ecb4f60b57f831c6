// Benchmark of the dashboard's server and page: `npm run bench -- dashboard`. A run of 10,000 requests with its event log,
// copied 200 times; and a list of 10,000 runs.

import { spawnSync } from "node:child_process";
import { copyFileSync, linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { asyncBufferFromFile, parquetMetadataAsync } from "hyparquet";
import { median } from "../core/serving/distribution.ts";
import { comparisonReport } from "../lab/dashboard/comparison-report.ts";
import { bundlePage } from "../viz/bundle.ts";
import { type Dashboard, serveDashboard } from "../viz/server/serve.ts";
import { measureList, measurePage, type PageMeasurement } from "./dashboard-page.ts";
import { writeReports } from "./run-list.ts";

const runCount = 200;
const manyCount = 10_000;
const repeats = 9;

const folder = mkdtempSync(join(tmpdir(), "kvlab-bench-"));
const runs = join(folder, "runs");

function kvlab(...args: readonly string[]): void {
  const program = fileURLToPath(new URL("../cli/main.ts", import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, ["--import", "tsx", program, ...args], { encoding: "utf8" });
  if (status !== 0) throw new Error(`${args.join(" ")} failed:\n${stderr}`);
}

/** Creates the first run, and copies that share its tables. */
function makeRuns(): void {
  const trace = join(folder, "trace.jsonl.gz");
  const first = join(runs, "run-0");
  kvlab("trace", "generate", "chat", "--requests", "10000", "--out", trace);
  kvlab(
    "replay",
    trace,
    "--target",
    "sim",
    "--preset",
    "vllm",
    "--blocks",
    "20000",
    "--rate",
    "10",
    "--events",
    "--out",
    first,
  );
  for (let i = 1; i < runCount; i++) {
    const copy = join(runs, `run-${i}`);
    mkdirSync(copy);
    for (const name of readdirSync(first))
      (name === "run.json" ? copyFileSync : linkSync)(join(first, name), join(copy, name));
  }
}

async function measured(url: string): Promise<void> {
  const times: number[] = [];
  let bytes = 0;
  for (let i = 0; i < repeats; i++) {
    const start = performance.now();
    const response = await fetch(url);
    bytes = (await response.arrayBuffer()).byteLength;
    times.push(performance.now() - start);
    if (!response.ok) throw new Error(`${url}: ${response.status}`);
  }
  const [first, ...others] = times;
  const then = median(others);
  const path = new URL(url).pathname + new URL(url).search;
  console.log(
    `${path.padEnd(58)}${first.toFixed(0).padStart(6)} ms first${then.toFixed(1).padStart(8)} ms then  ${bytes} B`,
  );
}

async function serve(folder: string): Promise<Dashboard> {
  const none = () => Promise.reject(new Error("this benchmark starts no runs"));
  return await serveDashboard({
    page: await bundlePage(),
    folder,
    port: 0,
    program: [],
    sources: none,
    keep: none,
    deleteRun: none,
    report: comparisonReport,
  });
}

function print(measurements: readonly PageMeasurement[]): void {
  for (const { name, value, unit, atMost } of measurements) {
    const verdict = atMost === undefined ? "" : value <= atMost ? `at most ${atMost}` : `MORE THAN ${atMost}`;
    console.log(`${name.padEnd(44)}${value.toFixed(1).padStart(8)} ${unit.padEnd(5)}${verdict}`);
  }
}

try {
  makeRuns();
  const dashboard = await serve(runs);
  const { num_rows } = await parquetMetadataAsync(await asyncBufferFromFile(join(runs, "run-0/events.parquet")));
  console.log(`${runCount} runs of 10,000 requests and ${num_rows} events each`);
  for (const path of [
    "runs",
    "runs/run-7",
    "runs/run-7/series",
    "runs/run-7/series?fromNs=100000000000&toNs=200000000000",
    "runs/run-7/requests",
    "runs/run-7/requests?points=10000",
    "pairs?a=run-7&b=run-8&metric=ttftMs",
    "runs/run-7/log",
    "runs/run-7/moment?event=500000",
    "runs/run-7/moment?from=500000&next=preempt",
    "runs/run-7/prefixes",
    "difference?a=run-7&b=run-8",
  ])
    await measured(`${dashboard.url}api/${path}`);
  for (let i = 0; i < runCount; i++) await (await fetch(`${dashboard.url}api/runs/run-${i}/requests`)).arrayBuffer();
  console.log(`${(process.memoryUsage().rss / 2 ** 20).toFixed(0)} MiB after the requests of all ${runCount} runs`);
  console.log("\nThe page, in chromium at 1280 × 1400");
  print(await measurePage(dashboard.url, "run-7", "run-8"));
  await dashboard.close();
  const many = join(folder, "many");
  writeReports(many, join(runs, "run-0/run.json"), manyCount);
  const ofMany = await serve(many);
  console.log(`\n${manyCount} runs`);
  await measured(`${ofMany.url}api/runs`);
  print(await measureList(ofMany.url, `${manyCount} runs`));
  await ofMany.close();
} finally {
  rmSync(folder, { recursive: true });
}
