import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { driverVariable } from "../../engine/cuda/driver.ts";
import { randomConfig, randomWeights } from "../../engine/model/random.ts";
import type { Choices, Job, ListedRun, RunList } from "../../viz/api.ts";
import { fromBuild, json, newFolder } from "../cli/program.ts";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "../engine/cuda/emulation/build.ts";
import { checkpointOf } from "../support/checkpoints.ts";
import { dashboardOver } from "./dashboard.ts";

/** A policy that writes its process id, and then does not end. */
const endless = (before: string) => `
import { writeFileSync } from "node:fs";
${before}
const path = new URL("file://" + process.env.PID_FILE);
export default { create: () => ({ add() {}, remove() {}, victim() { writeFileSync(path, String(process.pid)); for (;;); } }) };
`;

const isOver = ({ state }: Job) => state !== "waiting" && state !== "running";

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("the runs of a comparison are saved beside the others as each is complete, and equal those of the program", async () => {
  const folder = newFolder();
  const runs = join(folder, "runs");
  const over = await dashboardOver(runs);
  const { id, state, command } = await over.start({
    ...{ trace: "example", target: "cache", limit: 300, evictions: ["lru", "fifo"], blocks: ["200", "5%"] },
  });
  expect(state).toBe("running");
  expect(command).toBe(
    "kvlab compare example --target cache --eviction lru,fifo --blocks 200,5% --limit 300 --out runs",
  );
  const job = await over.until(id, isOver);
  expect(job).toMatchObject({ state: "done", progress: 1, lastOutput: "" });
  expect([...job.runs].sort()).toEqual(readdirSync(runs).sort());
  const rows = (await over.get<RunList>("/api/runs")).runs as readonly ListedRun[];
  expect(rows.map(({ eviction }) => eviction).sort()).toEqual([
    "belady",
    "belady",
    "fifo",
    "fifo",
    "lru",
    "lru",
    "unbounded",
  ]);
  const lru = rows.find(({ eviction, blocks }) => eviction === "lru" && blocks === 200)!;
  const alone = await json(folder, ["replay", "example", "--limit", "300", "--blocks", "200", "--no-save"]);
  expect(lru.hitRatio).toEqual(alone.cache.hitRatio);
  const fifo = rows.find(({ eviction, blocks }) => eviction === "fifo" && blocks === 200)!;
  const { uncertainty } = JSON.parse(readFileSync(join(runs, fifo.id, "run.json"), "utf8"));
  expect(uncertainty, "added at the end of the comparison").toMatchObject({
    gainOverLru: { high: expect.any(Number) },
  });

  const again = await over.start({ trace: "example", target: "cache", limit: 300, blocks: ["200"] });
  const { runs: same } = await over.until(again.id, isOver);
  expect(same).toEqual([lru.id]);
  expect(readdirSync(runs).sort()).toEqual([...job.runs].sort());
});

test("a job that the program refuses has the program's message", async () => {
  const folder = newFolder();
  mkdirSync(join(folder, "traces"));
  const request = JSON.stringify({ timestamp: 0, input_length: 600, output_length: 5, hash_ids: [1, 2] });
  writeFileSync(join(folder, "traces/bad.jsonl"), `${request}\nno trace\n`);
  const over = await dashboardOver(join(folder, "runs"), { traces: [join(folder, "traces")] });
  const { id } = await over.start({ trace: join(folder, "traces/bad.jsonl"), target: "cache" });
  const job = await over.until(id, isOver);
  expect(job).toMatchObject({
    state: "failed",
    runs: [],
    lastOutput: expect.stringMatching(/^kvlab: .*bad.jsonl:2: /),
  });
  expect(readdirSync(join(folder, "runs"))).toEqual([]);
});

test("messages of a policy that are not progress are ignored", async () => {
  const folder = newFolder();
  const program = join(folder, "program.mjs");
  const sent = [null, "text", 7, [], {}, { doing: 1, share: "all" }, { doing: "nearly", share: 0.5 }];
  writeFileSync(program, `for (const each of ${JSON.stringify(sent)}) process.send(each); process.exitCode = 2;`);
  const over = await dashboardOver(join(folder, "runs"), { program: [process.execPath, program] });
  const { id } = await over.start({ trace: "example", target: "cache" });
  expect(await over.until(id, isOver)).toMatchObject({ state: "failed", lastOutput: "nearly", progress: 0.5 });
});

test("presets are compared at several rates, and their event logs are saved on request", async () => {
  const folder = newFolder();
  const runs = join(folder, "runs");
  const over = await dashboardOver(runs);
  const { id, command } = await over.start({
    ...{ trace: "example", target: "sim", presets: ["vllm", "sglang"], model: "llama-3.1-8b", gpu: "l40s" },
    ...{
      replicas: [2],
      routers: ["random"],
      rates: [1.5, 3],
      blocks: ["600"],
      limit: 60,
      warmup: 5,
      seed: 7,
      events: true,
    },
  });
  expect(command).toBe(
    "kvlab compare example --target sim --preset vllm,sglang --model llama-3.1-8b --gpu l40s --replicas 2 --router random " +
      "--rate 1.5,3 --blocks 600 --limit 60 --warmup 5 --seed 7 --events --out runs",
  );
  const job = await over.until(id, isOver);
  expect(job).toMatchObject({ state: "done", lastOutput: "" });
  expect(job.runs).toHaveLength(4);
  for (const run of job.runs) {
    expect(readdirSync(join(runs, run))).toContain("events.parquet");
    const report = JSON.parse(readFileSync(join(runs, run, "run.json"), "utf8"));
    expect(report).toMatchObject({ seed: 7, warmup: 5, simulation: { gpu: "l40s", replicas: 2, router: "random" } });
    expect(report.command).toContain("--seed 7 --events");
  }
});

test("a real engine runs a model from the given folder, and one with random weights", async () => {
  const folder = newFolder();
  const models = join(folder, "models");
  cpSync(checkpointOf(randomConfig("tiny"), randomWeights(randomConfig("tiny"), 3)), join(models, "small/llama"), {
    recursive: true,
  });
  const program = [process.execPath, ...fromBuild()];
  const over = await dashboardOver(join(folder, "runs"), { models, program });
  const { engineModels } = await over.get<Choices>("/api/choices");
  const model = join(models, "small/llama");
  expect(engineModels).toContain("random:tiny");
  expect(engineModels.filter((name) => name.includes("/"))).toEqual([model]);
  for (const each of [model, "random:tiny"]) {
    const { id } = await over.start({ trace: "example", target: "cpu", model: each, blocks: ["2000"], limit: 2 });
    const { state, lastOutput, runs } = await over.until(id, isOver);
    expect({ state, lastOutput }).toEqual({ state: "done", lastOutput: "" });
    const report = JSON.parse(readFileSync(join(folder, "runs", runs[0], "run.json"), "utf8"));
    expect(report.engine.model).toBe(each);
  }
});

describe.runIf(canEmulate)("a job of target cuda", () => {
  test(
    "runs on the device, and without one fails with the program's line",
    async () => {
      const folder = newFolder();
      const library = await emulatorLibrary();
      const over = await dashboardOver(join(folder, "runs"), { program: [process.execPath, ...fromBuild()] });
      const request = { trace: "example", target: "cuda", model: "random:tiny", blocks: ["100"], limit: 1 };
      const ended = async (driver: string) => {
        vi.stubEnv(driverVariable, driver);
        const { id } = await over.start(request);
        return await over.until(id, isOver);
      };
      const { state, lastOutput, runs } = await ended(library);
      expect({ state, lastOutput }).toEqual({ state: "done", lastOutput: "" });
      const list = await over.get<RunList>("/api/runs");
      expect(list.runs).toMatchObject([{ id: runs[0], target: "cuda", requests: 1 }]);
      const failed = { state: "failed", lastOutput: "kvlab: no CUDA driver: /none.so not found" };
      expect(await ended("/none.so")).toMatchObject(failed);
    },
    buildTimeoutMs,
  );
  afterEach(() => vi.unstubAllEnvs());
});

test("a command line is shown without running it", async () => {
  const folder = newFolder();
  const over = await dashboardOver(join(folder, "runs"));
  const response = await over.post({ trace: "example", target: "cache", presets: ["vllm", "tgi"] }, {}, "/api/command");
  expect([response.status, JSON.parse(response.text)]).toEqual([
    200,
    { command: "kvlab compare example --target cache --preset vllm,tgi --out runs" },
  ]);
  expect(await over.get<Job[]>("/api/jobs")).toEqual([]);
});

describe("a job that is cancelled", () => {
  test.each([
    ["ends at once", ""],
    ["is killed if it does not end", 'process.on("SIGINT", () => {});'],
  ])("%s", async (_, before) => {
    const folder = newFolder();
    const pidFile = join(folder, "pid");
    mkdirSync(join(folder, "mine"));
    writeFileSync(
      join(folder, "mine/endless.ts"),
      endless(before).replace("process.env.PID_FILE", JSON.stringify(pidFile)),
    );
    const policies = join(folder, "mine");
    const over = await dashboardOver(join(folder, "runs"), { policies, killAfterMs: 200 });
    const job = { trace: "example", target: "cache", limit: 200, blocks: ["20"] };
    const { id } = await over.start({ ...job, evictions: [join(policies, "endless.ts")] });
    while (!existsSync(pidFile) || readFileSync(pidFile, "utf8") === "") await sleep(20);
    const pid = Number(readFileSync(pidFile, "utf8"));
    expect(isAlive(pid)).toBe(true);
    expect((await over.request(`/api/jobs/${id}`, { method: "DELETE" })).status).toBe(202);
    expect(await over.until(id, isOver)).toMatchObject({ state: "cancelled", runs: [] });
    expect(isAlive(pid)).toBe(false);
    expect(readdirSync(join(folder, "runs"))).toEqual([]);
  });

  test("keeps the runs that were complete, and the next one that waits begins", async () => {
    const folder = newFolder();
    const over = await dashboardOver(join(folder, "runs"));
    const blocks = Array.from({ length: 40 }, (_, i) => `${1000 + i}`);
    const long = { trace: "example", target: "cache", evictions: ["lru"], blocks };
    const start = (seed: number) => over.start({ ...long, seed });
    const jobs = [await start(1), await start(2), await start(3)];
    expect(jobs.map(({ state }) => state)).toEqual(["running", "running", "waiting"]);
    const [first, second, third] = jobs.map(({ id }) => id);
    const { progress } = await over.until(first, ({ runs }) => runs.length > 0);
    expect(progress).toBeGreaterThan(0);
    expect(progress).toBeLessThan(1);
    await over.request(`/api/jobs/${first}`, { method: "DELETE" });
    const ended = await over.until(first, isOver);
    expect(ended.state).toBe("cancelled");
    expect(readdirSync(join(folder, "runs"))).toEqual(expect.arrayContaining([...ended.runs]));
    await over.until(third, ({ state }) => state === "running");
    await over.dashboard.close();
    const left = readdirSync(join(folder, "runs"));
    expect(left.filter((name) => name.startsWith("."))).toEqual([]);
    expect(second).toBe(2);
  });
});
