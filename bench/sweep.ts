import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stopwatch } from "../engine/clock.ts";
import { programOfKvlab } from "../lab/package.ts";
import { RedisServer, SlurmCluster } from "../test/support/servers.ts";
import type { Measurement } from "./measure.ts";

/** The part: `replays` or `simulations`, with the number of pairs, or where the overhead is measured. */
const [part, pairs = "1"] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "kvlab-bench-"));
const [node, ...before] = programOfKvlab();
let sweeps = 0;

/** A sweep file, and options of the command. */
interface Swept {
  readonly file: object;
  readonly args: readonly string[];
}

/** So many configurations over the first requests of the example. */
const smallRuns = (configurations: number) => ({
  options: { limit: 20 },
  vary: { blocks: { from: 100, to: 99 + configurations, step: 1 } },
});

/** Runs a sweep in a folder of its own; returns its wall-clock time and that of its configurations, in ms. */
function timed({ file, args }: Swept, env: NodeJS.ProcessEnv = {}) {
  const out = join(folder, `${sweeps++}`);
  const path = `${out}.json`;
  writeFileSync(path, JSON.stringify(file));
  const elapsedMs = stopwatch();
  const options = { env: { ...process.env, ...env }, stdio: "ignore" } as const;
  execFileSync(node, [...before, "sweep", path, "--out", out, ...args], options);
  const wallMs = elapsedMs();
  const lines = readFileSync(join(out, "times.jsonl"), "utf8").trim().split("\n");
  const ranMs = lines.reduce((sum, line) => sum + JSON.parse(line).wallMs, 0);
  return { wallMs, ranMs, configurations: lines.length };
}

/** The fastest of several sweeps. */
const least = (times: readonly ReturnType<typeof timed>[]) => times.toSorted((a, b) => a.wallMs - b.wallMs)[0];

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** Sweeps as users run them: two to four minutes with one worker. */
const large = {
  replays: {
    vary: {
      eviction: ["lru", "fifo", "lfu", "s3-fifo"],
      blocks: { from: 1000, to: 50_000, count: 200, step: 1, scale: "log" },
    },
  },
  simulations: {
    target: "sim",
    options: { preset: "vllm", rate: 8 },
    vary: {
      eviction: ["lru", "fifo", "lfu", "s3-fifo"],
      replicas: [1, 2, 4],
      blocks: { from: 4000, to: 50_000, count: 20, step: 1, scale: "log" },
    },
  },
};

/** Two workers compared with one, in pairs. */
function speedup(name: keyof typeof large): Measurement[] {
  const trace = join(folder, "trace.jsonl.gz");
  execFileSync(node, [...before, "trace", "generate", "chat", "--requests", "20000", "--out", trace], {
    stdio: "ignore",
  });
  const file = { trace, ...large[name] };
  const times = Array.from({ length: Number(pairs) }, () =>
    ["1", "2"].map((workers) => timed({ file, args: ["--workers", workers] })),
  );
  const [{ ranMs, configurations }] = times[0];
  const ratio = median(times.map(([one, two]) => one.wallMs / two.wallMs));
  return [
    { name: `${configurations} ${name}: each`, value: ranMs / configurations, unit: "ms" },
    { name: `${configurations} ${name}: 2 workers, speed-up over 1`, value: ratio, unit: "×" },
  ];
}

/**
 * Time of a further configuration beyond its run: the difference of a large and a small sweep with one worker, each the fastest of
 * three, without the configurations' own time.
 */
function overhead(name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Measurement[] {
  // Starts the workers of a Redis.
  timed({ file: smallRuns(16), args }, env);
  const [small, large] = [400, 2000].map((configurations) =>
    least(Array.from({ length: 3 }, () => timed({ file: smallRuns(configurations), args }, env))),
  );
  const further = 2000 - 400;
  const ms = (large.wallMs - small.wallMs - (large.ranMs - small.ranMs)) / further;
  return [
    { name: `${name}: of each configuration`, value: ms, unit: "ms" },
    { name: `${name}: of a sweep`, value: small.wallMs - small.ranMs - 400 * ms, unit: "ms" },
  ];
}

async function onRedis(): Promise<Measurement[]> {
  const { spawn } = await import("node:child_process");
  const redis = await RedisServer.start();
  const worker = spawn(node, [...before, "worker", redis.address], { stdio: "ignore" });
  try {
    return overhead("Redis, 1 worker", ["--on", redis.address]);
  } finally {
    worker.kill("SIGKILL");
    await redis.end();
  }
}

async function onSlurm(): Promise<Measurement[]> {
  const cluster = await SlurmCluster.start();
  try {
    return overhead(
      "Slurm, 1 element at a time",
      ["--on", "slurm", "--shard-size", "100", "--sbatch=--exclusive"],
      cluster.env,
    );
  } finally {
    await cluster.end();
  }
}

const parts: Readonly<Record<string, () => Measurement[] | Promise<Measurement[]>>> = {
  replays: () => speedup("replays"),
  simulations: () => speedup("simulations"),
  local: () => overhead("1 local worker", ["--workers", "1"]),
  redis: onRedis,
  slurm: onSlurm,
};

try {
  console.log(JSON.stringify(await parts[part]()));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
