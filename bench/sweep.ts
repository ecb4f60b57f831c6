import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stopwatch } from "../engine/clock.ts";
import { programOfKvlab } from "../lab/package.ts";
import { RedisServer, SlurmCluster } from "../test/support/servers.ts";
import type { Measurement } from "./measure.ts";

/** The part: `workers`, with the number of pairs, or where the overhead is measured. */
const [part, pairs = "3"] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "kvlab-bench-"));
const [node, ...before] = programOfKvlab();
let sweeps = 0;

/** A sweep of so many configurations over the first requests of the example. */
interface Swept {
  readonly configurations: number;
  readonly requests: number;
  readonly args: readonly string[];
}

/** Runs a sweep in a folder of its own; returns its wall-clock time and that of its configurations, in ms. */
function timed({ configurations, requests, args }: Swept, env: NodeJS.ProcessEnv = {}) {
  const out = join(folder, `${sweeps++}`);
  const file = `${out}.json`;
  const blocks = { from: 100, to: 99 + configurations, step: 1 };
  writeFileSync(file, JSON.stringify({ options: { limit: requests }, vary: { blocks } }));
  const elapsedMs = stopwatch();
  const options = { env: { ...process.env, ...env }, stdio: "ignore" } as const;
  execFileSync(node, [...before, "sweep", file, "--out", out, ...args], options);
  const wallMs = elapsedMs();
  const lines = readFileSync(join(out, "times.jsonl"), "utf8").trim().split("\n");
  const ranMs = lines.reduce((sum, line) => sum + JSON.parse(line).wallMs, 0);
  return { wallMs, ranMs };
}

/** The fastest of several sweeps. */
const least = (times: readonly ReturnType<typeof timed>[]) => times.toSorted((a, b) => a.wallMs - b.wallMs)[0];

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** Two workers compared with one, in pairs, over configurations that take long enough that the start of a worker does not count. */
function speedup(): Measurement[] {
  const swept = { configurations: 1000, requests: 20_000 };
  const ratios = Array.from({ length: Number(pairs) }, () => {
    const [one, two] = ["1", "2"].map((workers) => timed({ ...swept, args: ["--workers", workers] }).wallMs);
    return one / two;
  });
  return [{ name: "2 local workers, speed-up over 1", value: median(ratios), unit: "×" }];
}

/**
 * Time of a further configuration beyond its run: the difference of a large and a small sweep with one worker, each the fastest of
 * three, without the configurations' own time.
 */
function overhead(name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Measurement[] {
  // Starts the workers of a Redis.
  timed({ configurations: 16, requests: 20, args }, env);
  const [small, large] = [400, 2000].map((configurations) =>
    least(Array.from({ length: 3 }, () => timed({ configurations, requests: 20, args }, env))),
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
  workers: speedup,
  local: () => overhead("1 local worker", ["--workers", "1"]),
  redis: onRedis,
  slurm: onSlurm,
};

try {
  console.log(JSON.stringify(await parts[part]()));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
