import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { EventLog } from "../../core/log/event-log.ts";
import { TimeSeries } from "../../core/serving/time-series.ts";
import { LiveRun } from "../../lab/run/live.ts";
import type { LiveList, LiveRow, LogData, MomentData, RunDetail, SeriesData } from "../../viz/api.ts";
import { columnFile, eventColumns, mostLiveEvents } from "../../viz/server/live-format.ts";
import { ended, kvlab, newFolder, refusal, start } from "../cli/program.ts";
import { LiveCache } from "../support/live-cache.ts";
import { type Client, dashboardOver } from "./dashboard.ts";

/** A simulation that takes seconds, because it is audited after every step. */
const slow = [
  "replay",
  "example",
  "--limit",
  "400",
  "--target",
  "sim",
  "--preset",
  "sglang",
  "--blocks",
  "600",
  "--audit",
];
const id = "example-sim-h200-sglang-lru-600";

const listed = async (client: Client) => (await client.get<LiveList>("/api/live")).live as LiveRow[];

/** The only running program, once the condition is true. */
async function until(client: Client, isSo: (row: LiveRow) => boolean): Promise<LiveRow> {
  for (;;) {
    const [row] = await listed(client);
    if (row && isSo(row)) return row;
    await sleep(20);
  }
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

test("a running simulation is listed, grows, and is removed when it has ended and is saved", async () => {
  const folder = newFolder();
  const client = await dashboardOver(join(folder, "runs"));
  expect(await listed(client)).toEqual([]);
  const child = start(folder, [...slow, "--live", "--json", "--events"]);
  const end = ended(child);
  const early = await until(client, ({ now }) => now !== null && now.requestsDone > 0);
  expect(early).toMatchObject({
    ...{ pid: child.pid, state: "running", target: "sim", trace: "example", requests: 400, preset: "sglang" },
    ...{ eviction: "lru", blocks: 600, blockTokens: 16, capacityTokens: 9600 },
    run: expect.stringMatching(`^${id}-[0-9a-f]{8}$`),
    command: expect.stringMatching(/^kvlab replay example --limit 400 --preset sglang .*--events$/),
  });
  const { now } = await until(client, (row) => row.now!.requestsDone > early.now!.requestsDone);
  expect(now!.timeNs).toBeGreaterThan(early.now!.timeNs!);
  expect(now!.hitRatio["token"]).toBeCloseTo(now!.hitTokens / now!.lookupTokens);
  expect(now!.throughput!.requestsPerS).toBeGreaterThan(0);
  expect(now!.eventsWritten).toBe(now!.events);
  expect(sum(Object.values(now!.blocks))).toBe(600);
  const series = await client.get<SeriesData>(`/api/live/${early.id}/series?bins=50`);
  expect(series.startNs.length).toBeGreaterThan(10);
  expect(series.startNs.length).toBeLessThanOrEqual(50);
  const filled = ["freeBlocks", "privateBlocks", "heldBlocks", "idleBlocks"].map((name) => series.columns[name]);
  for (let i = 0; i < series.startNs.length; i++) expect(sum(filled.map((values) => values[i]))).toBeCloseTo(600, 1);
  const moment = (path: string, event: number) => client.get<MomentData>(`/api/${path}/moment?event=${event}`);
  const newest = await moment(`live/${early.id}`, Number.MAX_SAFE_INTEGER);
  expect(newest.event).toBeGreaterThanOrEqual(now!.eventsWritten);
  expect(sum(Object.values(newest.counts))).toBe(600);
  const { event } = newest;
  await until(client, (row) => row.now!.eventsWritten > event + 12);
  const then = await moment(`live/${early.id}`, event);
  expect((await client.get<LogData>(`/api/live/${early.id}/log`)).events).toBeGreaterThan(event);

  const { code, stdout, stderr } = await end;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(await moment(`runs/${early.run}`, event)).toEqual(then);
  expect(await listed(client)).toEqual([]);
  expect(readdirSync(join(folder, "runs"))).toEqual([early.run]);
  const { row } = await client.get<RunDetail>(`/api/runs/${early.run}`);
  expect(row.savedAtMs).toBeGreaterThan(early.startedAtMs);
  expect(row.hitRatio).toEqual(JSON.parse(stdout).cache.hitRatio);
  expect((await client.request(`/api/live/${early.id}`)).status).toBe(404);
});

describe("a program that is ended", () => {
  test("by Ctrl-C leaves no files", async () => {
    const folder = newFolder();
    const client = await dashboardOver(join(folder, "runs"));
    const child = start(folder, [...slow, "--live"]);
    const end = ended(child);
    await until(client, ({ now }) => now !== null);
    child.kill("SIGINT");
    expect(await end).toMatchObject({ code: 130, stdout: "" });
    expect(readdirSync(folder)).toEqual([]);
  });

  test("by SIGKILL can be dismissed, one that runs cannot", async () => {
    const folder = newFolder();
    const client = await dashboardOver(join(folder, "runs"));
    const child = start(folder, [...slow, "--live"]);
    const end = ended(child);
    await until(client, ({ state, now }) => state === "running" && now !== null);
    const dismiss = () => client.request(`/api/live/${child.pid}`, { method: "DELETE" });
    expect(await dismiss()).toMatchObject({ status: 409, text: '{"error":"the program is running"}' });
    child.kill("SIGKILL");
    await end;
    expect((await dismiss()).status).toBe(204);
    expect(await listed(client)).toEqual([]);
    expect((await dismiss()).status).toBe(404);
  });

  test("by SIGKILL is listed as killed until another program or dashboard starts", async () => {
    const folder = newFolder();
    const runs = join(folder, "runs");
    const client = await dashboardOver(runs);
    const killed = async () => {
      const child = start(folder, [...slow, "--live"]);
      const end = ended(child);
      await until(client, ({ state, now }) => state === "running" && now !== null);
      child.kill("SIGKILL");
      await end;
      return `${child.pid}`;
    };
    const first = await killed();
    expect(await listed(client)).toMatchObject([{ id: first, state: "killed", now: { running: expect.any(Number) } }]);
    const second = await killed();
    expect(await listed(client)).toMatchObject([{ id: second, state: "killed" }]);
    const other = await dashboardOver(runs);
    expect(await listed(other)).toEqual([]);
    expect(readdirSync(runs)).toEqual([]);
  });
});

test("folders that are not live runs are listed as broken, links are not followed, and other runs are listed", async () => {
  const folder = newFolder();
  const live = join(folder, "runs/.live");
  mkdirSync(join(live, "empty"), { recursive: true });
  mkdirSync(join(folder, "outside"));
  const write = (name: string, file: string, text: string) => {
    mkdirSync(join(live, name), { recursive: true });
    writeFileSync(join(live, name, file), text);
  };
  const header = JSON.stringify({
    ...{ schema: "live/1", pid: process.pid, host: "elsewhere", command: "kvlab replay", run: null, trace: "t" },
    ...{
      requests: 9,
      target: "sim",
      preset: null,
      index: "i",
      eviction: "e",
      allocator: "a",
      scheduler: "s",
      victims: "any",
    },
    ...{ blocks: null, blockTokens: 16 },
  });
  write("no-json", "header.json", "{");
  write("other", "header.json", '{ "schema": "live/2" }');
  write("large", "header.json", `"${"x".repeat(2 ** 20)}"`);
  for (const name of ["bad-now", "bad-series", "whole"]) write(name, "header.json", header);
  write("bad-now", "now.json", '{ "state": "asleep" }');
  write("bad-series", "series.json", '{ "startNs": 0, "intervalNs": 5, "count": 2, "columns": { "busy": [1] } }');
  writeFileSync(join(folder, "outside/header.json"), header);
  symlinkSync(join(folder, "outside"), join(live, "linked"));
  symlinkSync(join(folder, "outside/header.json"), join(live, "empty/header.json"));
  writeFileSync(join(live, "file"), "");

  const now = { state: "running", requestsDone: 0, timeNs: 0, running: 0, waiting: 0, lookupTokens: 0, hitTokens: 0 };
  const blocks = { free: 0, private: 0, held: 0, idle: 0 };
  const more = { evictedBlocks: 0, preemptions: 0, hitRatio: {}, throughput: null };
  for (const name of ["short-log", "bad-log"]) {
    write(name, "header.json", header);
    write(name, "now.json", JSON.stringify({ ...now, blocks, ...more, events: 2, eventsWritten: 2 }));
    // Two events of kind 255: sixteen bytes are enough for any column.
    for (const column of eventColumns)
      writeFileSync(
        join(live, name, columnFile(column)),
        new Uint8Array(name === "bad-log" ? 16 : 1).fill(column === "kind" ? 255 : 0),
      );
  }

  const client = await dashboardOver(join(folder, "runs"));
  const rows = (await client.get<LiveList>("/api/live")).live;
  expect(Object.fromEntries(rows.map((row) => [row.id, "problem" in row ? row.problem : row.state]))).toEqual({
    "bad-now": expect.stringMatching(/^now.json: state: /),
    "bad-log": "running",
    "bad-series": "running",
    empty: "has no header.json",
    large: expect.stringMatching(/^a file has 1048578 bytes/),
    "no-json": "header.json is not valid JSON",
    other: expect.stringMatching(/^header.json: schema: /),
    "short-log": "running",
    whole: "running",
  });
  const status = async (path: string) => (await client.request(`/api/live/${path}`)).status;
  expect(await status("whole")).toBe(200);
  expect(await status("bad-now")).toBe(422);
  expect(await status("bad-series/series")).toBe(422);
  for (const name of ["short-log", "bad-log"]) expect([name, await status(`${name}/log`)]).toEqual([name, 422]);
  expect(await status("whole/moment?event=0")).toBe(404);
  for (const path of [
    "linked",
    "file",
    "..%2f..%2foutside",
    "%2e%2e",
    ".hidden",
    "nothing",
    "whole%2fheader.json",
    "whole/series",
  ])
    expect([path, await status(path)]).toEqual([path, 404]);

  renameSync(live, join(folder, "moved"));
  symlinkSync(join(folder, "moved"), live);
  expect(await listed(client)).toEqual([]);
  expect(await status("whole")).toBe(404);
});

test("the event log of a run is the same with and without live reporting", async () => {
  const folder = newFolder();
  const how = ["replay", "example", "--limit", "200", "--target", "sim", "--blocks", "300", "--events"];
  await kvlab(folder, [...how, "--out", "alone"]);
  await kvlab(folder, [...how, "--live", "--out", "reported"]);
  for (const name of ["events.parquet", "kv-events.jsonl", "series.parquet", "steps.parquet", "requests.parquet"])
    expect([
      name,
      readFileSync(join(folder, "reported", name)).equals(readFileSync(join(folder, "alone", name))),
    ]).toEqual([name, true]);
  expect(readdirSync(folder).sort()).toEqual(["alone", "reported"]);
});

const setup = {
  ...{ command: "", run: null, trace: "t", requests: 1, target: "sim" as const, preset: null },
  ...{ index: "i", eviction: "e", allocator: "a", scheduler: "s", victims: "any", blocks: 1, blockTokens: 1 },
} as const;

test("an interval is reported when it is over, also if steps end later than now", async () => {
  const runs = newFolder();
  const series = new TimeSeries();
  const levels = { waiting: 0, running: 0, freeBlocks: 0, privateBlocks: 0, idleBlocks: 0, heldBlocks: 600, busy: 1 };
  const { cache } = new LiveCache();
  const replica = {
    cache,
    log: undefined,
    addLevelsTo: (to: TimeSeries, nowNs: number) => to.addLevels(levels, 0, nowNs),
  };
  series.addSteps(new Float64Array([1.5e6, 2.2e6, 9e6]), 3, 1, 1);
  const live = await LiveRun.open(runs, setup, () => {});
  live.watch({ done: 0, nowNs: 2.5e6, series, replicas: [replica] });
  const [name] = readdirSync(join(runs, ".live"));
  const reported = (file: string) => JSON.parse(readFileSync(join(runs, ".live", name, file), "utf8"));
  const { count, columns } = reported("series.json");
  expect(count).toBe(2);
  expect(columns).toMatchObject({ heldBlocks: [600, 600], busy: [1, 1], generatedTokens: [0, 1] });
  expect(reported("now.json").throughput).toEqual({ requestsPerS: 0, outputTokensPerS: 500 });
  live.close();
});

test("the number of reported events is limited, the number of all events is reported", async () => {
  const runs = newFolder();
  const log = new EventLog();
  for (let i = 0; i < mostLiveEvents + 5; i++) log.add(i % 20, i, 2, 3, 4.5, 6);
  const live = await LiveRun.open(runs, { ...setup, target: "cache" }, () => {});
  const [name] = readdirSync(join(runs, ".live"));
  const { cache } = new LiveCache();
  live.watch({ done: 0, replicas: [{ cache, log }] });
  const now = JSON.parse(readFileSync(join(runs, ".live", name, "now.json"), "utf8"));
  expect(now).toMatchObject({ events: mostLiveEvents + 5, eventsWritten: mostLiveEvents });
  const files = readdirSync(join(runs, ".live", name)).filter((file) => file.endsWith(".bin"));
  const sizes = files.map((file) => statSync(join(runs, ".live", name, file)).size);
  expect(sum(sizes)).toBe(29 * mostLiveEvents);
  live.close();
  expect(readdirSync(runs)).toEqual([]);
});

test("--live is refused with several runs", async () => {
  expect(await refusal(newFolder(), ["replay", "--live", "--repeat", "3"])).toMatch(
    /^--live and --repeat exclude each other/,
  );
});

test("a job of the page reports its progress without an option", async () => {
  const folder = newFolder();
  const client = await dashboardOver(join(folder, "runs"));
  const { id: job } = await client.start({ trace: "example", target: "sim", blocks: ["1000"] });
  const { pid } = await client.until(job, (each) => each.pid !== null);
  const row = await until(client, ({ now }) => now !== null);
  expect(row.pid).toBe(pid);
  const { runs, pid: none } = await client.until(job, ({ state }) => state === "done");
  expect(runs).toEqual([row.run]);
  expect(none).toBeNull();
  expect(readdirSync(join(folder, "runs"))).toEqual(runs);
});
