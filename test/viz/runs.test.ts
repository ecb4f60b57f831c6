import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { ListedRun, PairData, RequestsData, RunDetail, RunList, SeriesData } from "../../viz/api.ts";
import { json, kvlab, newFolder } from "../cli/program.ts";
import { type Client, dashboardOver } from "./dashboard.ts";

const folder = newFolder();
const runs = join(folder, "runs");
let client: Client;
const reports: Record<string, Awaited<ReturnType<typeof json>>> = {};

beforeAll(async () => {
  const small = ["example", "--limit", "400"];
  const made = {
    cached: [...small, "--warmup", "50"],
    fifo: [...small, "--eviction", "fifo"],
    timed: [...small, "--target", "sim", "--preset", "vllm", "--blocks", "1500", "--rate", "20", "--warmup", "20"],
  };
  for (const [name, args] of Object.entries(made))
    reports[name] = await json(folder, ["replay", ...args, "--out", `runs/${name}`]);
  client = await dashboardOver(runs);
});

const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

test("the list has the metrics of each run, the newest first", async () => {
  const { schema, runs: rows } = await client.get<RunList>("/api/runs");
  expect(schema).toBe("runs/1");
  expect(rows.map(({ id }) => id)).toEqual(["timed", "fifo", "cached"]);
  const [timed, , cached] = rows as readonly ListedRun[];
  expect(cached).toMatchObject({
    ...{ target: "cache", trace: "example", requests: 400, preset: null, index: "hash-table", eviction: "lru" },
    blocks: reports["cached"].policy.blocks,
    capacityTokens: reports["cached"].policy.blocks * 16,
    hitRatio: reports["cached"].cache.hitRatio,
  });
  expect(cached).not.toHaveProperty("ttftMsP50");
  const { latency, throughput } = reports["timed"];
  expect(timed).toMatchObject({
    ...{ target: "sim", preset: "vllm", scheduler: "fcfs-chunked", blocks: 1500, capacityTokens: 24_000 },
    requestsPerS: throughput.requestsPerS,
    ttftMsP50: latency.ttftMs.p50,
    ttftMsP99: latency.ttftMs.p99,
    latencyMsP50: latency.e2eMs.p50,
  });
});

test("a run has its report, its files and the command that reproduces it", async () => {
  const { report, command, files, row } = await client.get<RunDetail>("/api/runs/timed");
  const { command: saved, ...others } = JSON.parse(readFileSync(join(runs, "timed/run.json"), "utf8"));
  expect(report).toEqual(others);
  expect(command).toBe(saved);
  expect(command).toMatch(/^kvlab replay example --limit 400 --preset vllm /);
  expect(files).toEqual(readdirSync(join(runs, "timed")).sort());
  expect(row.id).toBe("timed");
});

describe("a series", () => {
  test("of a run with a clock has the counts of the report, in at most the requested number of intervals", async () => {
    const all = await client.get<SeriesData>("/api/runs/timed/series?bins=4096");
    const { cache } = reports["timed"];
    expect(total(all.columns["lookupTokens"])).toBe(cache.lookupTokens);
    expect(total(all.columns["hitTokens"])).toBe(cache.hitTokens);
    expect(total(all.columns["arrivals"])).toBe(380);

    const few = await client.get<SeriesData>("/api/runs/timed/series?bins=7");
    expect(few.startNs).toHaveLength(7);
    expect([few.startNs[0], few.endNs.at(-1)]).toEqual([all.startNs[0], all.endNs.at(-1)]);
    expect(few.startNs.slice(1)).toEqual(few.endNs.slice(0, -1));
    const hits = few.columns["hitTokens"].map((mean, i) => (mean * (few.endNs[i] - few.startNs[i])) / few.intervalNs);
    expect(total(hits)).toBeCloseTo(cache.hitTokens, 6);
    // Also where the run ended within an interval.
    for (const { columns, startNs } of [all, few])
      startNs.forEach((_, i) => {
        const blocks = ["freeBlocks", "privateBlocks", "idleBlocks", "heldBlocks"].map((name) => columns[name][i]);
        expect(total(blocks)).toBeCloseTo(1500, 6);
      });
  });

  test("of a shorter range has shorter intervals", async () => {
    const all = await client.get<SeriesData>("/api/runs/timed/series?bins=4096");
    const [fromNs, toNs] = [all.startNs[10], all.endNs[19]];
    const part = await client.get<SeriesData>(`/api/runs/timed/series?bins=600&fromNs=${fromNs}&toNs=${toNs}`);
    expect(part.startNs).toEqual(all.startNs.slice(10, 20));
    expect(part.columns["running"]).toEqual(all.columns["running"].slice(10, 20));
    const none = await client.get<SeriesData>("/api/runs/timed/series?fromNs=9000000000000000");
    expect(none.startNs).toEqual([]);
  });

  test("of a run without a clock has the metrics of its requests by arrival", async () => {
    const { columns, startNs } = await client.get<SeriesData>("/api/runs/cached/series?bins=20");
    expect(startNs).toHaveLength(20);
    const { cache } = reports["cached"];
    expect(total(columns["arrivals"])).toBe(350);
    expect(total(columns["lookupTokens"])).toBe(cache.lookupTokens);
    expect(total(columns["hitTokens"])).toBe(cache.hitTokens);
    expect(total(columns["computedTokens"])).toBe(cache.lookupTokens - cache.hitTokens);
  });
});

describe("requests", () => {
  test("are sampled at even distances, and their quantiles are those of the report", async () => {
    const data = await client.get<RequestsData>("/api/runs/timed/requests?points=100");
    expect(data.total).toBe(400);
    expect(data.columns["request"]).toEqual(Array.from({ length: 100 }, (_, i) => 4 * i));
    const { latency } = reports["timed"];
    for (const name of ["ttftMs", "tpotMs", "e2eMs", "queueMs"]) {
      const { p50, p90, p95, p99, max } = latency[name];
      expect([50, 90, 95, 99, 100].map((percent) => data.quantiles[name][percent])).toEqual([p50, p90, p95, p99, max]);
    }
    const [arrival, first, ttft] = ["arrivalNs", "firstTokenNs", "ttftMs"].map((name) => data.columns[name][5]!);
    expect(ttft).toBeCloseTo((first - arrival) / 1e6, 9);
  });

  test("together have the hit ratio of the report", async () => {
    const { columns, quantiles } = await client.get<RequestsData>("/api/runs/cached/requests?points=20000");
    const counted = (name: string) => total(columns[name].filter((_, i) => columns["warmup"][i] === 0) as number[]);
    expect(counted("hitTokens") / counted("inputTokens")).toBe(reports["cached"].cache.hitRatio.token);
    expect(quantiles).toEqual({});
    expect(columns).not.toHaveProperty("ttftMs");
  });
});

describe("pairs", () => {
  test("are the same requests in two runs, the largest differences first", async () => {
    const all = await client.get<PairData>("/api/pairs?a=cached&b=fifo&metric=hitTokens&points=20000");
    expect(all.total).toBe(350);
    const differences = all.a.map((value, i) => Math.abs(value - all.b[i]));
    expect(differences).toEqual([...differences].sort((x, y) => y - x));
    expect(differences[0]).toBeGreaterThan(0);
    expect(total(all.a)).toBe(reports["cached"].cache.hitTokens);
    const few = await client.get<PairData>("/api/pairs?a=cached&b=fifo&metric=hitTokens&points=3");
    expect(few).toEqual({ ...all, request: all.request.slice(0, 3), a: all.a.slice(0, 3), b: all.b.slice(0, 3) });
  });

  test("have metrics that both runs have, and are of one trace", async () => {
    expect((await client.request("/api/pairs?a=cached&b=fifo&metric=ttftMs")).text).toMatch(
      /no such metric, expected .*hitTokens/,
    );
    await kvlab(folder, ["trace", "generate", "chat", "--requests", "30", "--seed", "9", "--out", "other.jsonl"]);
    await kvlab(folder, ["replay", "other.jsonl", "--out", "elsewhere/other"]);
    const both = await dashboardOver(join(folder, "both"));
    mkdirSync(join(folder, "both"));
    for (const [from, to] of [
      ["elsewhere/other", "both/other"],
      ["runs/fifo", "both/fifo"],
    ])
      copyRun(join(folder, from), join(folder, to));
    const { status, text } = await both.request("/api/pairs?a=other&b=fifo");
    expect([status, JSON.parse(text)]).toEqual([409, { error: "the runs are of different traces: other and example" }]);
  });
});

/** Copies a run. */
function copyRun(from: string, to: string): void {
  mkdirSync(to);
  for (const name of readdirSync(from)) writeFileSync(join(to, name), readFileSync(join(from, name)));
}

test("folders without a run are listed as broken and do not affect other runs", async () => {
  const broken = join(folder, "broken");
  const whole = readFileSync(join(runs, "fifo/run.json"), "utf8");
  const make = (name: string, report?: string) => {
    mkdirSync(join(broken, name), { recursive: true });
    if (report !== undefined) writeFileSync(join(broken, name, "run.json"), report);
  };
  make("empty");
  make("half", whole.slice(0, 300));
  make("other-schema", '{ "schema": "compare/1" }');
  make("null", "null");
  make("odd-field", whole.replace('"blocks"', '"blicks"'));
  make("line\nbreak", "[]");
  make("deep/run.json");
  make(".fresh.17.tmp", whole);
  make("whole", whole);
  symlinkSync(join(runs, "fifo"), join(broken, "outside"));
  symlinkSync(join(broken, "nowhere"), join(broken, "dangling"));
  make("outside-report");
  symlinkSync(join(runs, "fifo/run.json"), join(broken, "outside-report/run.json"));
  writeFileSync(join(broken, "notes.txt"), "mine");

  const over = await dashboardOver(broken);
  const { runs: rows } = await over.get<RunList>("/api/runs");
  const problems = Object.fromEntries(rows.map((row) => [row.id, "problem" in row ? row.problem : "none"]));
  expect(rows[0].id).toBe("whole");
  expect(problems).toEqual({
    whole: "none",
    empty: "has no run.json",
    deep: "has no run.json",
    "outside-report": "has no run.json",
    half: expect.stringMatching(/^run.json is not valid JSON: [^\n]+$/),
    "other-schema": expect.stringContaining("run.json is not the report of a run: schema"),
    null: expect.stringContaining("run.json is not the report of a run: document"),
    "odd-field": expect.stringContaining("policy.blocks"),
    "line\nbreak": expect.stringContaining("document"),
    outside: expect.stringContaining("leads out"),
    dangling: expect.stringContaining("cannot be read"),
  });
  for (const [id, status] of [
    ["half", 422],
    ["empty", 404],
    ["outside", 404],
    [".fresh.17.tmp", 404],
    ["notes.txt", 404],
  ])
    expect((await over.request(`/api/runs/${id}`)).status, `${id}`).toBe(status);
  expect((await over.request("/api/runs/whole/requests")).text).toBe('{"error":"the run has no requests.parquet"}');
});

test("reports that are too large or too deep for the page are refused", async () => {
  const odd = join(folder, "odd");
  const whole = JSON.parse(readFileSync(join(runs, "fifo/run.json"), "utf8"));
  const { policy, trace, cache } = whole;
  const many = (length: number, of: (i: number) => string) => Array.from({ length }, (_, i) => of(i));
  const reports: Record<string, unknown> = {
    "no-blocks": { ...whole, policy: { ...policy, blocks: -5 } },
    "huge-blocks": { ...whole, policy: { ...policy, blockTokens: 1e300 } },
    "half-a-request": { ...whole, trace: { ...trace, requests: 0.5 } },
    "long-name": { ...whole, policy: { ...policy, eviction: "x".repeat(5000) } },
    "many-files": { ...whole, trace: { ...trace, files: many(20_000, () => "a.jsonl") } },
    "many-ratios": {
      ...whole,
      cache: { ...cache, hitRatio: Object.fromEntries(many(200, String).map((i) => [i, 0.5])) },
    },
    "large-ratio": { ...whole, cache: { ...cache, hitRatio: { token: 1e300 } } },
    nested: JSON.stringify(whole).replace("{", `{"more":${"[".repeat(100_000)}${"]".repeat(100_000)},`),
    brackets: { ...whole, note: '"\\\\'.repeat(20) + "[".repeat(1000) },
  };
  for (const [name, report] of Object.entries(reports)) {
    mkdirSync(join(odd, name), { recursive: true });
    writeFileSync(join(odd, name, "run.json"), typeof report === "string" ? report : JSON.stringify(report));
  }
  const over = await dashboardOver(odd);
  const { status, text } = await over.request("/api/runs");
  expect(status).toBe(200);
  expect(text.length).toBeLessThan(5000);
  const rows: RunList["runs"] = JSON.parse(text).runs;
  expect(Object.fromEntries(rows.map((row) => [row.id, "problem" in row ? row.problem : "none"]))).toEqual({
    "no-blocks": expect.stringContaining("policy.blocks: "),
    "huge-blocks": expect.stringContaining("policy.blockTokens: "),
    "half-a-request": expect.stringContaining("trace.requests: "),
    "long-name": expect.stringContaining("policy.eviction: "),
    "many-files": expect.stringContaining("trace.files: "),
    "many-ratios": expect.stringContaining("cache.hitRatio: "),
    "large-ratio": expect.stringContaining("cache.hitRatio.token: "),
    nested: "run.json is not the report of a run: it is nested over 64 deep",
    brackets: "none",
  });
  for (const { id } of rows)
    expect((await over.request(`/api/runs/${id}`)).status, id).toBe(id === "brackets" ? 200 : 422);
});

test("damaged tables are reported as damaged", async () => {
  const damaged = join(folder, "damaged");
  mkdirSync(damaged);
  copyRun(join(runs, "timed"), join(damaged, "one"));
  const requests = readFileSync(join(damaged, "one/requests.parquet"));
  const over = await dashboardOver(damaged);
  const middle = Buffer.from(requests).fill(7, 200, 2000);
  for (const content of [requests.subarray(0, 900), Buffer.alloc(0), Buffer.from("PAR1"), middle]) {
    writeFileSync(join(damaged, "one/requests.parquet"), content);
    const { status, text } = await over.request("/api/runs/one/requests");
    expect([status, JSON.parse(text).error]).toEqual([
      422,
      expect.stringMatching(/^requests.parquet is damaged \([^\n]+\)$/),
    ]);
  }
  // Another table under its name.
  for (const [name, other] of [
    ["requests", "series"],
    ["series", "requests"],
  ]) {
    writeFileSync(join(damaged, `one/${name}.parquet`), readFileSync(join(runs, "timed", `${other}.parquet`)));
    const { status, text } = await over.request(`/api/runs/one/${name}`);
    expect([status, JSON.parse(text).error]).toEqual([
      422,
      expect.stringContaining(`${name}.parquet is damaged (it has`),
    ]);
    writeFileSync(join(damaged, `one/${name}.parquet`), readFileSync(join(runs, "timed", `${name}.parquet`)));
  }
  expect((await over.get<RequestsData>("/api/runs/one/requests")).total).toBe(400);
});

test("added, replaced and removed runs are detected", async () => {
  const later = join(folder, "later");
  const over = await dashboardOver(later);
  const ids = async () => (await over.get<RunList>("/api/runs")).runs.map(({ id }) => id);
  expect(await ids()).toEqual([]);
  mkdirSync(later);
  copyRun(join(runs, "fifo"), join(later, ".one.17.tmp"));
  expect(await ids()).toEqual([]);
  renameSync(join(later, ".one.17.tmp"), join(later, "one"));
  expect(await ids()).toEqual(["one"]);
  expect((await over.get<RequestsData>("/api/runs/one/requests")).quantiles).toEqual({});
  rmSync(join(later, "one"), { recursive: true });
  copyRun(join(runs, "timed"), join(later, "one"));
  expect((await over.get<RequestsData>("/api/runs/one/requests")).quantiles).toHaveProperty("ttftMs");
  expect((await over.get<RunDetail>("/api/runs/one")).row.target).toBe("sim");
  rmSync(join(later, "one"), { recursive: true });
  expect(await ids()).toEqual([]);
});
