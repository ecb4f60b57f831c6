import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import {
  byScore,
  compare,
  compareServed,
  type EvictionPlugin,
  firstDifference,
  InputError,
  Interrupted,
  offlineBounds,
  openTrace,
  type Progress,
  replay,
  type SchedulerPlugin,
  serveTrace,
  simulate,
  verify,
} from "../../index.ts";
import { schedulerRegistry } from "../../policies/registry.ts";
import { json, newFolder } from "../cli/program.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-library-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const input = await openTrace("example", { limit: 60 });
const example = ["example", "--limit", "60"];

const ownPolicy: EvictionPlugin = {
  name: "own",
  about: "the least recently used entry",
  source: "this test",
  ...byScore("lastAccess", "releaseOrder"),
};
const ownScheduler: SchedulerPlugin = { ...schedulerRegistry.get("fcfs-chunked"), name: "own-scheduler" };

/** A report without the fields that differ between two runs of one configuration. */
function comparable(report: object) {
  return JSON.parse(JSON.stringify(report, (key, value) => (/^(wallMs|blockRefsPerS)$/.test(key) ? undefined : value)));
}

const aborted = (): AbortSignal => AbortSignal.abort();

describe("the report of a function is that of the command's --json", () => {
  test("replay", async () => {
    const options = { eviction: "lfu", blocks: { blocks: 100 }, rules: { "free-order": "forward" } } as const;
    const { report } = await replay(input, options);
    const args = "--eviction lfu --blocks 100 --rule free-order=forward --no-save".split(" ");
    expect(comparable(report)).toEqual(comparable(await json(newFolder(), ["replay", ...example, ...args])));
  });

  test("simulate", async () => {
    const { report } = await simulate(input, { preset: "vllm", rate: 5, replicas: 2 });
    const args = "--target sim --preset vllm --rate 5 --replicas 2 --no-save".split(" ");
    expect(comparable(report)).toEqual(comparable(await json(newFolder(), ["replay", ...example, ...args])));
  });

  test("compare", async () => {
    const { report } = await compare(input, { eviction: ["lru", "fifo"], blocks: [{ share: 0.1 }] });
    const args = "--eviction lru,fifo --blocks 10%".split(" ");
    expect(comparable(report)).toEqual(comparable(await json(newFolder(), ["compare", ...example, ...args])));
  });

  test("offlineBounds has the bounds of a comparison", async () => {
    const metrics = ["block", "token", "requestMeanToken", "fullBlock"] as const;
    const rules = { partial: "copy", "cache-generated": "true" } as const;
    const index = "block-trie";
    const { report } = await compare(input, {
      ...{ index: [index], eviction: ["fifo"], blocks: [{ blocks: 300 }], metric: "requestMeanToken" },
      ...{ rules: { partial: ["copy"], "cache-generated": ["true"] }, warmup: 5 },
    });
    const [bounds] = await offlineBounds(input, { index, rules, blocks: [{ blocks: 300 }], warmup: 5, metrics });
    const { offlineBound, cache } = report.runs[0];
    expect(bounds).toMatchObject({ blocks: 300, hitRatio: offlineBound!.hitRatio, reached: offlineBound!.reached });
    const gap = offlineBound!.gapClosed.token!;
    const { token } = offlineBound!.hitRatio;
    expect(offlineBound!.lru.token! + gap * (token! - offlineBound!.lru.token!)).toBeCloseTo(cache.hitRatio.token, 12);
    expect(report.runs.map(({ policy }) => policy.eviction)).toEqual(["fifo", "belady", "unbounded"]);
  });

  test("compareServed", async () => {
    const { report } = await compareServed(input, { target: "sim", preset: ["vllm", "sglang"], rate: [2, 4] });
    const args = "--target sim --preset vllm,sglang --rate 2,4".split(" ");
    expect(report.runs).toHaveLength(4);
    expect(comparable(report)).toEqual(comparable(await json(newFolder(), ["compare", ...example, ...args])));
  });

  test("firstDifference", async () => {
    const { report } = await firstDifference(input, { eviction: ["lru", "lru"], blocks: [{ blocks: 50 }] });
    expect([report.schema, report.identical]).toEqual(["first-difference/1", true]);
  });
});

test("serveTrace and verify run a model, and the simulator makes the same decisions", async () => {
  const short = await openTrace("example", { limit: 4 });
  const options = { blocks: { blocks: 400 }, threads: 1 } as const;
  const { report } = await serveTrace(short, options);
  expect([report.target, report.engine?.model, report.cache.lookups]).toEqual(["cpu", "random:tiny", 4]);
  const verified = await verify(short, options);
  expect([verified.report.schema, verified.report.identical]).toEqual(["verify/1", true]);
  expect(verified.report.contents).toBeNull();
  const { report: compared } = await verify(short, { ...options, contents: true, contentsShare: 1 });
  expect(compared.contents).toMatchObject({ identical: true, share: 1, difference: null });
  await expect(verify(short, { ...options, contents: true, contentsShare: 2 })).rejects.toThrow(
    "contentsShare is 2, expected a number above 0, at most 1",
  );
});

test("plug-ins may be passed as values", async () => {
  const { report } = await simulate(input, { eviction: ownPolicy, scheduler: ownScheduler });
  const named = await simulate(input, { eviction: "lru", scheduler: "fcfs-chunked" });
  expect([report.policy.eviction, report.policy.scheduler]).toEqual(["own", "own-scheduler"]);
  expect([report.cache, report.latency]).toEqual([named.report.cache, named.report.latency]);
  const { comparison } = await compare(input, { eviction: ["lru", ownPolicy], blocks: [{ share: 0.1 }] });
  expect(comparison.results.map(({ configuration }) => configuration.label)).toContain("own");
});

test("a policy that reads the future counts as offline although it does not declare it", async () => {
  const future: EvictionPlugin = {
    ...ownPolicy,
    name: "seer",
    create: (context) => Object.assign(ownPolicy.create(context), { prepare() {} }),
  };
  const { comparison } = await compare(input, { eviction: ["lru", future], blocks: [{ share: 0.1 }] });
  const kinds = comparison.results.map(({ configuration: { label, kind } }) => [label, kind]);
  expect(kinds.slice(0, 2)).toEqual([
    ["lru", "online"],
    ["seer", "offline"],
  ]);
});

test("progress is reported up to the number of requests", async () => {
  const seen: Progress[] = [];
  await replay("example", { limit: 60, progress: (progress) => seen.push(progress) });
  expect(seen[0]).toEqual({ doing: "reading example", done: 0 });
  expect(seen.at(-1)).toEqual({ doing: "replaying", done: 60, total: 60 });
});

describe("an aborted call", () => {
  test.each([
    ["openTrace", () => openTrace("example", { signal: aborted() })],
    ["replay", () => replay(input, { signal: aborted() })],
    ["simulate", () => simulate(input, { signal: aborted() })],
    ["serveTrace", () => serveTrace(input, { signal: aborted(), blocks: { blocks: 2000 } })],
    ["compare", () => compare(input, { signal: aborted() })],
    ["verify", () => verify(input, { signal: aborted() })],
  ])("%s rejects with Interrupted if nothing is complete", async (_, call) => {
    await expect(call()).rejects.toThrow(Interrupted);
  });

  test("leaves no files", async () => {
    const save = { as: join(folder, "aborted") };
    await expect(replay(input, { signal: aborted(), save })).rejects.toThrow(Interrupted);
    expect(existsSync(save.as)).toBe(false);
  });

  test("serveTrace reports the requests that had finished", async () => {
    const controller = new AbortController();
    const progress = ({ doing, done }: Progress) => {
      if (doing === "serving" && done >= 2) controller.abort();
    };
    const { report } = await serveTrace(input, { signal: controller.signal, progress, blocks: { blocks: 2000 } });
    expect(report.interrupted?.of).toBe(60);
    expect(report.interrupted!.requestsDone).toBeLessThan(60);
  });
});

test("a run is saved below a folder of runs, under its id", async () => {
  const below = join(folder, "runs");
  const { report, directory } = await replay(input, { save: { below } });
  expect(readdirSync(below)).toHaveLength(1);
  const { command, ...saved } = JSON.parse(readFileSync(join(directory!, "run.json"), "utf8"));
  expect(saved).toEqual(JSON.parse(JSON.stringify(report)));
  expect(command).toMatch(/^kvlab replay example /);
});

test("wrong options are refused with InputError", async () => {
  await expect(replay(input, { eviction: "lur" })).rejects.toThrow(InputError);
  await expect(replay(input, { warmup: 60 })).rejects.toThrow("--warmup is 60");
});
