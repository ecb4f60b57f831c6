import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { json, kvlab, newFolder } from "./program.ts";

const count = z.number().int().min(0);
const share = z.number().min(0).max(1);
const time = z.number().min(0);
const distribution = z.strictObject({ mean: time, p50: time, p90: time, p95: time, p99: time, max: time }).nullable();

/** The fields that a simulation adds to schema run/1. Fields may be added; none may be removed. */
const simulatedSchema = z.object({
  schema: z.literal("run/1"),
  target: z.literal("sim"),
  policy: z.object({ scheduler: z.string(), schedulerOptions: z.record(z.string(), z.number()) }),
  latency: z.object({ ttftMs: distribution, tpotMs: distribution, e2eMs: distribution, queueMs: distribution }),
  throughput: z.strictObject({ requestsPerS: time, inputTokensPerS: time, outputTokensPerS: time, makespanS: time }),
  simulation: z.object({
    model: z.string(),
    gpu: z.string(),
    tensorParallel: count,
    cost: z.string(),
    costNote: z.string().nullable(),
    efficiency: z.record(z.string(), z.number()).nullable(),
    kvBytesPerToken: z.number().positive(),
    swapSpaceBytes: count,
    replicas: count,
    router: z.string().nullable(),
    routerOptions: z.record(z.string(), z.number()).nullable(),
    loop: z.enum(["open", "closed"]),
    speed: z.number().positive(),
    requestsPerS: z.number().positive().nullable(),
    spread: z.enum(["none", "uniform"]),
  }),
  load: z.object({
    windowMs: time,
    drainMs: time,
    offeredRequestsPerS: time.nullable(),
    offeredTokensPerS: time.nullable(),
    servedRequestsPerS: time.nullable(),
    servedOutputTokensPerS: time.nullable(),
    steadyRequests: count,
    steady: z.boolean(),
    limitedBy: z.enum(["max-num-seqs", "token-budget", "blocks", "scheduler", "compute", "load"]),
    waiting: z.strictObject({ "max-num-seqs": share, "token-budget": share, blocks: share, scheduler: share }),
  }),
  slo: z.looseObject({ attained: share, goodputRequestsPerS: time }).nullable(),
  cluster: z.object({
    replicas: z.array(
      z.object({
        requests: count,
        lookupTokens: count,
        hitTokens: count,
        hitRatioToken: share,
        utilisation: share,
        steps: count,
      }),
    ),
    imbalance: z.number().min(1),
    duplicated: share,
  }),
  refusals: z.record(z.string(), count),
  cache: z.looseObject({
    lookups: count,
    preemptions: count,
    hitTokens: count,
    lookupTokens: count,
    refusedRequests: count,
  }),
});
type Report = z.infer<typeof simulatedSchema>;

async function table(path: string): Promise<Record<string, number>[]> {
  const bytes = readFileSync(path);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
  const rows = await parquetReadObjects({ file });
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value)])));
}

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
const of = (rows: readonly Record<string, number>[], name: string) => rows.map((row) => row[name]);

/** The definition: sorted values, interpolated linearly between two ranks. */
function described(values: readonly number[]) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => {
    const rank = (sorted.length - 1) * share;
    const [low, high] = [sorted[Math.floor(rank)], sorted[Math.ceil(rank)]];
    return low + (high - low) * (rank - Math.floor(rank));
  };
  return { mean: sum(values) / values.length, p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99), max: at(1) };
}

const limits = { ttft: 9000, tpot: 12, e2e: 12_000 };

/** Loads with overlapping requests; those with small caches also preempt and refuse. */
const loads: readonly [name: string, args: string][] = [
  ["one replica with a large cache", "--speed 20"],
  ["one replica with a small cache", "--speed 20 --blocks 200"],
  ["several replicas with small caches", "--speed 20 --blocks 200 --replicas 3 --router prefix-affinity"],
  ["a warm-up", "--speed 20 --blocks 200 --replicas 2 --warmup 40"],
  ["a closed loop that swaps", "--scheduler fcfs --scheduler-option swap=1 --speed 20 --blocks 200 --loop closed"],
  ["SGLang's preset", "--preset sglang --speed 20 --blocks 4000 --block-size 16"],
];

describe.each(loads)("the report's metrics follow from the saved tables: %s", (_, args) => {
  let report: Report;
  let requests: Record<string, number>[];
  let counted: Record<string, number>[];
  let served: Record<string, number>[];
  let steps: Record<string, number>[];
  let series: Record<string, number>[];
  const folder = newFolder();

  beforeAll(async () => {
    const slo = Object.entries(limits).map(([name, ms]) => `${name}=${ms}ms`);
    const commandArgs = `replay --target sim --limit 250 --slo ${slo.join(",")} --out run ${args}`.split(" ");
    report = simulatedSchema.parse(await json(folder, commandArgs));
    const [first, second, third] = ["requests", "steps", "series"].map((name) => join(folder, `run/${name}.parquet`));
    requests = await table(first);
    steps = await table(second);
    series = await table(third);
    counted = requests.filter(({ warmup }) => warmup === 0);
    served = counted.filter(({ refused }) => refused === 0);
  });

  const makespanNs = () => Math.max(...of(counted, "finishedNs")) - Math.min(...of(counted, "arrivalNs"));

  test("latency", () => {
    const ms = (to: string) => served.map((row) => (row[to] - row["arrivalNs"]) / 1e6);
    const several = served.filter(({ outputTokens }) => outputTokens > 1);
    const tpot = several.map((row) => (row["finishedNs"] - row["firstTokenNs"]) / 1e6 / (row["outputTokens"] - 1));
    const expected = { ttftMs: ms("firstTokenNs"), tpotMs: tpot, e2eMs: ms("finishedNs"), queueMs: ms("admittedNs") };
    for (const [name, values] of Object.entries(expected)) {
      const found = report.latency[name as keyof Report["latency"]];
      for (const [key, value] of Object.entries(described(values)))
        expect(found?.[key as "mean"], `${name} ${key}`).toBeCloseTo(value, 6);
    }
    const order = ["arrivalNs", "admittedNs", "firstTokenNs", "finishedNs"];
    for (const row of served)
      for (let i = 1; i < 4; i++) expect(row[order[i]]).toBeGreaterThanOrEqual(row[order[i - 1]]);
  });

  test("throughput, SLO and hits", () => {
    const seconds = makespanNs() / 1e9;
    expect(report.throughput.makespanS).toBeCloseTo(seconds, 9);
    expect(report.throughput.requestsPerS).toBeCloseTo(served.length / seconds, 6);
    expect(report.throughput.inputTokensPerS).toBeCloseTo(sum(of(served, "inputTokens")) / seconds, 3);
    expect(report.throughput.outputTokensPerS).toBeCloseTo(sum(of(served, "outputTokens")) / seconds, 3);
    const kept = served.filter(({ arrivalNs, firstTokenNs, finishedNs, outputTokens }) => {
      const tpot = outputTokens > 1 ? (finishedNs - firstTokenNs) / (outputTokens - 1) : 0;
      const within = (ns: number, ms: number) => ns <= ms * 1e6;
      return (
        within(firstTokenNs - arrivalNs, limits.ttft) &&
        within(tpot, limits.tpot) &&
        within(finishedNs - arrivalNs, limits.e2e)
      );
    });
    expect(kept.length).toBeGreaterThan(0);
    expect(report.slo).toMatchObject({ ttftMs: limits.ttft, tpotMs: limits.tpot, e2eMs: limits.e2e });
    expect(report.slo?.attained).toBeCloseTo(kept.length / counted.length, 9);
    expect(report.slo?.goodputRequestsPerS).toBeCloseTo(kept.length / seconds, 6);
    const { cache } = report;
    expect(cache).toMatchObject({
      lookups: counted.length,
      lookupTokens: sum(of(counted, "inputTokens")),
      hitTokens: sum(of(counted, "hitTokens")),
      refusedRequests: counted.length - served.length,
    });
    expect(sum(Object.values(report.refusals))).toBe(cache.refusedRequests);
  });

  test("replicas", () => {
    const { replicas, imbalance } = report.cluster;
    const rows = replicas.map((_, replica) => counted.filter((row) => row["replica"] === replica));
    expect(replicas.map((each) => each.requests)).toEqual(rows.map((all) => all.length));
    expect(imbalance).toBeCloseTo(Math.max(...of(replicas, "requests")) / (counted.length / replicas.length), 9);
    const from = Math.min(...of(counted, "arrivalNs"));
    replicas.forEach(({ lookupTokens, hitTokens, steps: stepCount, utilisation }, replica) => {
      expect(lookupTokens).toBe(sum(of(rows[replica], "inputTokens")));
      expect(hitTokens).toBe(sum(of(rows[replica], "hitTokens")));
      const own = steps.filter((step) => step["replica"] === replica && step["startNs"] + step["durationNs"] > from);
      const busyNs = sum(own.map((step) => step["startNs"] + step["durationNs"] - Math.max(from, step["startNs"])));
      expect(stepCount).toBe(own.length);
      expect(utilisation).toBeCloseTo(Math.min(1, busyNs / makespanNs()), 9);
    });
  });

  test("steps and series", () => {
    for (let replica = 0; replica < report.simulation.replicas; replica++) {
      let from = 0;
      for (const step of steps.filter((row) => row["replica"] === replica)) {
        expect(step["startNs"]).toBeGreaterThanOrEqual(from);
        from = step["startNs"] + step["durationNs"];
      }
    }
    const all = requests.filter(({ refused }) => refused === 0);
    const computed = sum(of(steps, "prefillTokens")) + sum(of(steps, "decodeTokens"));
    const once = sum(all.map((row) => row["inputTokens"] - row["hitTokens"] + Math.max(0, row["outputTokens"] - 1)));
    // Tokens are recomputed only for requests that were preempted or refused.
    const isOnce = sum(of(requests, "preemptions")) === 0 && all.length === requests.length;
    expect(computed).toBeGreaterThanOrEqual(once);
    if (isOnce) expect(computed).toBe(once);
    const startNs = series[0]["startNs"];
    const total = (name: string) => sum(of(series, name));
    const endOf = (step: Record<string, number>) => step["startNs"] + step["durationNs"];
    const later = steps.filter((step) => endOf(step) > startNs);
    expect(total("steps")).toBe(later.length);
    expect(total("computedTokens")).toBe(sum(of(later, "prefillTokens")) + sum(of(later, "decodeTokens")));
    expect(startNs).toBe(Math.min(...of(counted, "arrivalNs")));
    if (counted.length === requests.length) {
      expect(total("arrivals")).toBe(requests.length);
      expect(total("finished")).toBe(all.length);
      expect(total("refused")).toBe(requests.length - all.length);
    }
    expect(report.cache.preemptions).toBe(sum(of(counted, "preemptions")));
    if (counted.length === requests.length) expect(total("preemptions")).toBe(report.cache.preemptions);
    const busyNs = sum(later.map((step) => endOf(step) - Math.max(startNs, step["startNs"])));
    expect(sum(series.map((row) => row["busy"] * row["durationNs"]))).toBeCloseTo(busyNs, -2);
    const last = series.at(-1)!;
    const endNs = Math.max(...later.map(endOf));
    expect(last["durationNs"]).toBeLessThanOrEqual(series[0]["durationNs"]);
    expect(last["startNs"] + last["durationNs"]).toBe(endNs);
  });
});

const untimed = ({ wallMs: _, blockRefsPerS: __, ...report }: Record<string, unknown>) => report;
const runOf = (folder: string, path: string) => JSON.parse(readFileSync(join(folder, path, "run.json"), "utf8"));

describe("a saved run's command reproduces its report", () => {
  const commands = [
    "replay --target sim --limit 150 --preset vllm --rate 30 --slo ttft=50ms,e2e=2.5s --gpu a100-80gb --tp 2",
    "replay --target sim --limit 150 --capacity 1.5GB --kv-dtype fp8 --swap-space 0 --scheduler fcfs --speed 1e2 --events",
    "replay --target sim --limit 150 --replicas 3 --router prefix-affinity --router-option cache-threshold=0.25 --seed 7",
    "replay --target sim --limit 150 --gpu-memory .5 --efficiency memory=0.0000005 --efficiency stepUs=12.5 --spread uniform",
    "replay --target sim --limit 150 --loop closed --speed 10 --warmup 20 --scheduler-option max-num-seqs=4 --blocks 30%",
    "replay --target sim --limit 150 --preset sglang --eviction lfu --rule publish=finish --block-size 16 --model qwen3-8b",
  ];
  test.concurrent.each(commands)("kvlab %s", async (command) => {
    const folder = newFolder();
    const report = await json(folder, [...command.split(" "), "--out", "first"]);
    const [, ...commandArgs] = runOf(folder, "first").command.split(" ");
    expect(untimed(await json(folder, [...commandArgs, "--out", "again"]))).toEqual(untimed(report));
    expect(runOf(folder, "again").command).toBe(runOf(folder, "first").command);
    for (const name of readdirSync(join(folder, "first")).filter((name) => name !== "run.json"))
      expect(readFileSync(join(folder, "again", name)).equals(readFileSync(join(folder, "first", name))), name).toBe(
        true,
      );
  });

  test("of every row of a comparison, each saved in its own folder", async () => {
    const folder = newFolder();
    const lists =
      "--preset vllm,sglang --replicas 1,2 --router random,dynamo-kv --router-option temperature=0 --rate 5,50";
    const commandArgs = `compare --target sim --limit 60 ${lists} --blocks 300`.split(" ");
    await expect(json(folder, commandArgs)).rejects.toThrow(/router random has no option/);
    const possible = commandArgs.filter((word) => !/^(--router-option|temperature=0)$/.test(word));
    const { schema, runs } = await json(folder, [...possible, "--out", "all"]);
    expect(schema).toBe("compare/1");
    // Each preset at each rate on one replica, and on two with either router.
    expect(runs).toHaveLength(2 * 2 * 3);
    const saved = readdirSync(join(folder, "all")).map((id) => runOf(folder, `all/${id}`));
    expect(saved).toHaveLength(runs.length);
    for (const { command, ...report } of saved) {
      const [, ...again] = command.split(" ");
      expect(untimed(await json(folder, [...again, "--no-save"]))).toEqual(untimed(report));
      expect(runs.map(untimed)).toContainEqual(untimed(report));
    }
  });
});

test("a command is reproducible, and another seed changes the routes of a random router", async () => {
  const folder = newFolder();
  const run = async (seed: string, out: string) => {
    const commandArgs = `replay --target sim --limit 100 --replicas 4 --router random --seed ${seed} --timeline ${out}.json`;
    const report = untimed(await json(folder, [...commandArgs.split(" "), "--out", out]));
    return { report, timeline: readFileSync(join(folder, `${out}.json`), "utf8") };
  };
  const first = await run("1", "a");
  expect(await run("1", "b")).toEqual(first);
  const { report } = await run("2", "c");
  expect(report["cluster"]).not.toEqual(first.report["cluster"]);
});

/** Three requests at once, one of them longer than a cache of five blocks. */
function smallTrace(): string {
  const folder = newFolder();
  const lines = [
    { timestamp: 1000, input_length: 1000, output_length: 1, hash_ids: [1, 2] },
    { timestamp: 1000, input_length: 5000, output_length: 9, hash_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] },
    { timestamp: 1000, input_length: 700, output_length: 0, hash_ids: [1, 11] },
    { timestamp: 1000, input_length: 512, output_length: 3000, hash_ids: [12] },
    { timestamp: 3000, input_length: 512, output_length: 4, hash_ids: [12] },
  ];
  writeFileSync(join(folder, "t.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return folder;
}

test("requests that can never fit are refused, with the reasons in the summary and in JSON", async () => {
  const folder = smallTrace();
  const commandArgs = "replay t.jsonl --target sim --blocks 5 --no-save".split(" ");
  const report = simulatedSchema.parse(await json(folder, commandArgs));
  expect(report.cache).toMatchObject({ lookups: 5, refusedRequests: 2 });
  expect(report.refusals).toEqual({
    "it needs more blocks than the cache has": 1,
    "its answer needs more blocks than the cache has": 1,
  });
  const { stdout } = await kvlab(folder, commandArgs);
  expect(stdout.replaceAll("\n", " ")).toContain(
    "2 of 5 requests were refused, 1 because it needs more blocks than the cache has; " +
      "1 because its answer needs more blocks than the cache has.",
  );
  const { stdout: none } = await kvlab(folder, "replay t.jsonl --target sim --blocks 1 --no-save --limit 1".split(" "));
  expect(none.replaceAll("\n", " ")).toContain("1 of 1 request were refused, because it needs more blocks");
  expect(none).toMatch(/TTFT +– +– +– +– +–/);
  expect(none).not.toMatch(/NaN|undefined|Infinity|null/);
});

test("--spread uniform distributes equal times until the next one, and the last ones over the same time as those before", async () => {
  const folder = smallTrace();
  const commandArgs = "replay t.jsonl --target sim --spread uniform --speed 2 --out run".split(" ");
  await json(folder, commandArgs);
  const rows = await table(join(folder, "run/requests.parquet"));
  // Four requests share the two seconds until the next one, at twice the speed.
  expect(of(rows, "arrivalNs")).toEqual([500_000_000, 750_000_000, 1_000_000_000, 1_250_000_000, 1_500_000_000]);
});

test("with --loop closed a turn arrives its think time after the end of the previous turn", async () => {
  const folder = newFolder();
  const turns = [
    { timestamp: 0, input_length: 512, output_length: 100, hash_ids: [1], session_id: 1 },
    { timestamp: 10, input_length: 1024, output_length: 5, hash_ids: [1, 2], session_id: 1, parent: 0, think_ns: 2e9 },
    { timestamp: 20, input_length: 512, output_length: 5, hash_ids: [3], session_id: 2 },
  ];
  writeFileSync(join(folder, "t.jsonl"), turns.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const commandArgs = "replay t.jsonl --target sim --loop closed --speed 2 --out run".split(" ");
  const report = await json(folder, commandArgs);
  expect(report.simulation.loop).toBe("closed");
  const rows = await table(join(folder, "run/requests.parquet"));
  expect(of(rows, "arrivalNs")).toEqual([0, rows[0]["finishedNs"] + 1e9, 10_000_000]);
});

test("with --concurrency a request arrives when one has ended, in simulation, comparison and engine", async () => {
  const folder = newFolder();
  const load = ["example", "--limit", "60", "--concurrency", "8"];
  const report = await json(folder, ["replay", ...load, "--target", "sim", "--out", "run"]);
  expect(report.simulation).toMatchObject({ loop: "closed", concurrency: 8 });
  const rows = await table(join(folder, "run/requests.parquet"));
  const ends = [...of(rows, "finishedNs")].sort((a, b) => a - b);
  expect(of(rows, "arrivalNs")).toEqual(ends.map((_, id) => (id < 8 ? 0 : ends[id - 8])));
  const compared = await json(folder, ["compare", ...load, "--target", "sim", "--eviction", "lru"]);
  expect(compared.runs[0].latency).toEqual(report.latency);
  const verified = await json(folder, ["verify", "example", "--limit", "20", "--concurrency", "3", "--blocks", "400"]);
  expect(verified.identical).toBe(true);
});

test("summaries fit 80 columns, tables are aligned, and neither has undefined values", async () => {
  const folder = newFolder();
  const load = "--target sim --limit 120 --speed 20 --blocks 200 --no-save --slo ttft=1s,tpot=20ms,e2e=10s";
  for (const args of ["", "--replicas 20 --router dynamo-kv", "--preset trt-llm --warmup 30", "--loop closed"]) {
    const { stdout, stderr, code } = await kvlab(folder, ["replay", ...`${load} ${args}`.trim().split(" ")]);
    expect({ stderr, code }, args).toEqual({ stderr: "", code: 0 });
    expect(stdout).not.toMatch(/NaN|undefined|Infinity|null/);
    expect(Math.max(...stdout.split("\n").map((line) => line.length)), args).toBeLessThanOrEqual(80);
  }
  const lists = "--target sim --limit 120 --preset vllm,sglang --eviction lru,mru --rate 5,50 --blocks 200";
  const { stdout } = await kvlab(folder, ["compare", ...lists.split(" ")]);
  expect(stdout).toMatch(/^ {2}policy +eviction +rate +hit ratio +TTFT p50 +p99 +TPOT +latency +requests\/s/m);
  const [, performance, , served] = stdout.split("\n\n");
  expect(served).toMatch(/^ {2}policy +eviction +rate +refused +drain +goodput\/s +limit/m);
  for (const table of [performance, served]) {
    expect(table.match(/^ {2}(vllm|sglang) +(lru|mru) +(5|50) /gm)).toHaveLength(8);
    const widths = table.split("\n").map(({ length }) => length);
    expect(Math.max(...widths) - Math.min(...widths)).toBeLessThanOrEqual(1);
  }
});

test("a row that refuses requests is never the best", async () => {
  const folder = smallTrace();
  const { stdout } = await kvlab(folder, "compare t.jsonl --target sim --eviction lru --blocks 5,100".split(" "));
  // With five blocks two of the five requests are refused.
  expect(stdout).toMatch(/^ {2}lru +5 +2 /m);
  expect(stdout).toMatch(/^ {2}lru +100 +0 /m);
  for (const line of stdout.split("\n")) if (/^ {2}lru +5 /.test(line)) expect(line).not.toContain("*");
  expect(stdout).toMatch(/^ {2}lru +100 .*\*/m);
  expect(stdout).toContain("Requests were refused in 1 row;");
});

test("step times that are not measured on the GPU say so", async () => {
  const folder = newFolder();
  const noteOf = async (args: string) => {
    const options = ["--target", "sim", "--limit", "20", ...args.split(" ")];
    const { simulation } = await json(folder, ["replay", ...options, "--no-save"]);
    const { stdout } = await kvlab(folder, ["replay", ...options, "--no-save"]);
    const text = stdout.replaceAll(/\s+/g, " ");
    if (simulation.costNote !== null) expect(text).toContain(simulation.costNote);
    return simulation.costNote;
  };
  expect(await noteOf("--gpu rtx-pro-6000")).toBeNull();
  expect(await noteOf("--gpu h100")).toMatch(/^Step times are not measured on h100: /);
  expect(await noteOf("--gpu h100 --efficiency memory=0.8")).toBeNull();
});

test("a profile that is not used because of --tp or --kv-dtype is named, unless the roofline was chosen", async () => {
  const folder = newFolder();
  const noteOf = async (args: string) => {
    const options = `replay --target sim --gpu rtx-pro-6000 --limit 20 --no-save ${args}`;
    return (await json(folder, options.split(" "))).simulation.costNote;
  };
  expect(await noteOf("--tp 2")).toBeNull();
  expect(await noteOf("--tp 4")).toBe(
    "Profile rtxpro6000-llama-3.1-8b was measured with --tp 1, 2, not 4: step times are those of the roofline.",
  );
  expect(await noteOf("--kv-dtype fp8")).toMatch(/with keys and values of the model's type, not fp8: /);
  expect(await noteOf("--tp 4 --cost roofline")).toBeNull();
});

test("the summary of a pipeline does not have async-scheduling, which has no effect there", async () => {
  const stepsOf = async (args: string) => {
    const { stdout } = await kvlab(
      newFolder(),
      `replay --target sim --preset vllm --limit 20 --no-save ${args}`.split(" "),
    );
    return stdout.replaceAll(/\s+/g, " ");
  };
  expect(await stepsOf("--pp 1")).toContain("async-scheduling=1");
  expect(await stepsOf("--pp 2")).not.toContain("async-scheduling");
});

test("a comparison reports capacities without evictions, where policies cannot differ", async () => {
  const folder = newFolder();
  const textOf = async (commandArgs: string) =>
    (await kvlab(folder, ["compare", ...commandArgs.split(" ")])).stdout.replaceAll("\n", " ");
  const served = "--target sim --limit 60 --eviction lru,fifo";
  expect(await textOf(served)).toContain("Nothing was evicted: all content fits into the cache");
  expect(await textOf(`${served} --blocks 5%`)).not.toContain("Nothing was evicted");
  expect(await textOf(`${served} --index none`)).not.toContain("Nothing was evicted");
  const replayed = await textOf("--limit 60 --eviction lru,fifo --blocks 5%,100%");
  expect(replayed.match(/With [\d,]+ blocks nothing was evicted/g)).toHaveLength(1);
});

test("presets with different block sizes are compared at the same number of tokens", async () => {
  const args = "compare --target sim --limit 40 --preset vllm,sglang,lmdeploy --blocks 400,unlimited";
  const { runs } = await json(newFolder(), args.split(" "));
  const sizes = runs.map(({ policy }: { policy: { blocks: number | null; blockTokens: number } }) =>
    policy.blocks === null ? null : policy.blocks * policy.blockTokens,
  );
  expect(sizes).toEqual([6400, null, 6400, null, 6400, null]);
});

test("the report of target cache has no fields of timed runs", async () => {
  const report = await json(newFolder(), ["replay", "--limit", "100", "--no-save"]);
  expect(Object.keys(report).sort()).toEqual([
    "blockRefsPerS",
    "cache",
    "kvlab",
    "latency",
    "policy",
    "schema",
    "seed",
    "target",
    "throughput",
    "trace",
    "wallMs",
    "warmup",
  ]);
  expect(report).toMatchObject({ target: "cache", latency: null, throughput: null });
});
