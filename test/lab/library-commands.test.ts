import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  beat,
  calibrate,
  checkPlugin,
  doctor,
  type EvictionPlugin,
  fuzz,
  generate,
  generateTrace,
  InputError,
  Interrupted,
  listExperiments,
  listPlugins,
  type Progress,
  runConformance,
  runExperiment,
  type TimedCompletion,
  traceStats,
} from "../../index.ts";
import { ended, json, kvlab, newFolder, start } from "../cli/program.ts";

// Functions of the library other than those that run a trace.

const signal = AbortSignal.abort();

/** A report without the fields that differ between two runs of one command. */
const comparable = (report: object) =>
  JSON.parse(
    JSON.stringify(report, (key, value) =>
      /^(cost|wallMs|.*Ms|.*PerS|availableBytes)$/.test(key) ? undefined : value,
    ),
  );

/** The --json output of a command; warnings on stderr are accepted. */
async function engineJson(args: readonly string[]) {
  const { code, stdout, stderr } = await ended(start(newFolder(), [...args, "--json"]));
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

function recorded(): { readonly seen: Progress[]; readonly progress: (progress: Progress) => void } {
  const seen: Progress[] = [];
  return { seen, progress: (progress) => void seen.push(progress) };
}

describe("checkPlugin", () => {
  test("gives the report of kvlab check --json", async () => {
    const { seen, progress } = recorded();
    const { report, kind } = await checkPlugin("fifo", { runs: 20, progress });
    expect([kind, report.holds]).toEqual(["eviction", true]);
    expect(comparable(report)).toEqual(comparable(await json(newFolder(), ["check", "fifo", "--runs", "20"])));
    expect(seen[0]).toEqual({ doing: "loading fifo", done: 0 });
    expect(seen[1].doing).toMatch(/^trying: /);
  });

  test("checks a plug-in that is passed as a value, and restores the clocks that it replaces", async () => {
    const { now } = Date;
    const withoutVictim: EvictionPlugin = {
      ...{ name: "no-victim", about: "", source: "" },
      create: () => ({ add: () => void Date.now(), remove() {}, victim: () => undefined }),
    };
    const { report } = await checkPlugin(withoutVictim, { runs: 10 });
    const broken = report.laws.filter(({ result }) => result === "broken").map(({ name }) => name);
    expect([report.file, report.kind, report.holds]).toEqual(["no-victim", "eviction", false]);
    expect(broken).toContain("always-a-victim");
    expect(broken).toContain("no-hidden-inputs");
    expect(Date.now).toBe(now);
    expect(new Date().getFullYear()).toBeLessThan(2030);
  });

  test("checks one plug-in at a time, and stops when it is aborted", async () => {
    const first = checkPlugin("lru", { runs: 5, signal });
    await expect(checkPlugin("fifo", { runs: 5 })).rejects.toThrow("only one check can run at a time");
    await expect(first).rejects.toThrow(Interrupted);
    await expect(checkPlugin("./missing.ts")).rejects.toThrow("./missing.ts: no such file");
  });
});

describe("runConformance", () => {
  const cases = "test/conformance/cases";

  test("gives the report of kvlab conformance --json", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, cases), { recursive: true });
    for (const name of ["admission.json", "boundary.json"]) copyFileSync(join(cases, name), join(folder, cases, name));
    const files = ["admission.json", "boundary.json"].map((name) => join(cases, name));
    const { seen, progress } = recorded();
    const { report } = await runConformance(files, { progress });
    expect(report).toEqual(await json(folder, ["conformance", cases]));
    expect(report.passed).toBe(2);
    expect(seen.at(-1)).toEqual({ doing: "running cases", done: 2, total: 2 });
  });

  test("stops when it is aborted, and refuses a file that is not a case", async () => {
    await expect(runConformance(cases, { signal })).rejects.toThrow(Interrupted);
    await expect(runConformance("package.json")).rejects.toThrow(InputError);
  });
});

describe("runExperiment", () => {
  test("gives the report of kvlab experiment --json", async () => {
    const { seen, progress } = recorded();
    const { report } = await runExperiment("prefix-pool", { progress });
    expect(comparable(report)).toEqual(comparable(await json(newFolder(), ["experiment", "prefix-pool"])));
    expect(await listExperiments()).toEqual(await json(newFolder(), ["experiment"]));
    expect(seen[0].doing).toMatch(/^prefix-pool: /);
  });

  test("stops when it is aborted, and refuses options that contradict each other", async () => {
    await expect(runExperiment("prefix-pool", { signal })).rejects.toThrow(Interrupted);
    await expect(runExperiment("prefix-pool", { threads: 2 })).rejects.toThrow("--threads needs --target cpu");
    await expect(runExperiment("prefix-poll")).rejects.toThrow('did you mean "prefix-pool"?');
  });
});

test("traceStats gives the report of kvlab trace stats --json", async () => {
  const { report, stats } = await traceStats("example", { limit: 50, blockSize: 32 });
  const args = ["trace", "stats", "example", "--limit", "50", "--block-size", "32"];
  expect(report).toEqual(await json(newFolder(), args));
  expect(stats.requests).toBe(50);
  await expect(traceStats("example", { signal })).rejects.toThrow(Interrupted);
});

test("generateTrace writes the file of kvlab trace generate, for every generator", async () => {
  const folder = newFolder();
  const { seen, progress } = recorded();
  const out = join(folder, "mine.jsonl");
  expect(await generateTrace({ out, requests: 40, seed: 3, progress })).toEqual({ requests: 40 });
  expect(seen.at(-1)).toEqual({ doing: "generating", done: 40, total: 40 });
  await kvlab(folder, ["trace", "generate", "chat", "--out", "theirs.jsonl", "--requests", "40", "--seed", "3"]);
  expect(readFileSync(out, "utf8")).toBe(readFileSync(join(folder, "theirs.jsonl"), "utf8"));
  const rag = ["trace", "generate", "rag", "--out", "rag.jsonl", "--requests", "40", "--documents", "9"];
  expect(await kvlab(folder, rag)).toMatchObject({ stdout: "Wrote 40 requests to rag.jsonl\n" });
  await generateTrace({ generator: "rag", out: join(folder, "rag-2.jsonl"), requests: 40, documents: 9 });
  expect(readFileSync(join(folder, "rag-2.jsonl"), "utf8")).toBe(readFileSync(join(folder, "rag.jsonl"), "utf8"));
  await expect(generateTrace({ out })).rejects.toThrow("already exists");
  await expect(generateTrace({ out: join(folder, "b"), turns: 0 })).rejects.toThrow("--turns is 0");
  await expect(generateTrace({ out: join(folder, "b"), signal })).rejects.toThrow(Interrupted);
});

test("doctor and listPlugins give the reports of their commands", async () => {
  const { report } = await doctor();
  const theirs = await engineJson(["doctor"]);
  expect([report.schema, theirs.ok]).toEqual(["doctor/1", true]);
  // Vitest's loader does not resolve a package that exports subpaths only.
  const faults = report.findings.filter(({ what, ok, optional }) => !ok && !optional && what !== "libraries");
  expect(faults).toEqual([]);
  expect(report.findings.map(({ what }) => what)).toEqual(theirs.findings.map(({ what }: { what: string }) => what));
  await expect(doctor({ bits: 8 })).rejects.toThrow("--bits needs --model");
  await expect(doctor({ signal })).rejects.toThrow(Interrupted);
  expect(await listPlugins()).toEqual(await json(newFolder(), ["policies"]));
});

describe("calibrate", () => {
  const few = { maxPrompt: 64, maxBatch: 2, rounds: 1, threads: 1 } as const;

  test("measures an engine, reports progress and writes the cost model and its plot", async () => {
    const folder = newFolder();
    const { seen, progress } = recorded();
    const [out, plot] = [join(folder, "cost.json"), join(folder, "cost.svg")];
    const { report } = await calibrate({ ...few, out, plot, progress });
    expect(report.schema).toBe("calibrate/1");
    expect(JSON.parse(readFileSync(out, "utf8"))).toHaveProperty("about");
    expect(readFileSync(plot, "utf8")).toMatch(/^<svg/);
    expect(seen.at(-1)).toMatchObject({ doing: "measuring", done: seen.at(-1)!.total });
  });

  test("stops when it is aborted", async () => {
    const out = join(newFolder(), "cost.json");
    await expect(calibrate({ ...few, out, signal })).rejects.toThrow(Interrupted);
  });
});

test("generate gives the report of kvlab generate --json, and calls onOutput with each output", async () => {
  const outputs: number[] = [];
  const onOutput = ({ completion }: TimedCompletion) => void outputs.push(completion.tokens.length);
  const options = { maxTokens: 5, threads: 1, onOutput };
  const { report } = await generate(["one", "one two"], options);
  const args = ["generate", "one", "one two", "--max-tokens", "5", "--threads", "1"];
  expect(comparable(report)).toEqual(comparable(await engineJson(args)));
  expect(outputs).toEqual([5, 5]);
  await expect(generate(["one"], { signal })).rejects.toThrow(Interrupted);
});

describe("fuzz and beat", () => {
  test("fuzz searches the kinds that are chosen and reports progress", async () => {
    const { seen, progress } = recorded();
    const { report } = await fuzz({ against: ["indexes"], cases: 10, seed: 5, out: newFolder(), progress });
    expect(comparable(report)).toEqual(
      comparable(await json(newFolder(), ["fuzz", "--against", "indexes", "--cases", "10", "--seed", "5"])),
    );
    expect(seen.at(-1)).toEqual({ doing: "searching", done: 10, total: 10 });
  });

  test("beat finds a trace on which a policy that is passed as a value has fewer hits", async () => {
    const out = newFolder();
    const newest: EvictionPlugin = { ...mostRecent, name: "newest" };
    const sides = [
      { label: "newest", names: { eviction: newest }, rules: {} },
      { label: "lru", names: { eviction: "lru" }, rules: {} },
    ] as const;
    const { report, run } = await beat(sides, { out, cases: 2000 });
    expect(report.schema).toBe("fuzz/1");
    expect(run.finding).toBeDefined();
    await expect(beat([sides[0], sides[0]], { out })).rejects.toThrow("newest twice");
  });

  test("an aborted search is reported as interrupted", async () => {
    const { report } = await fuzz({ against: ["indexes"], signal, out: newFolder() });
    expect(report.interrupted).toBe(true);
  });
});

/** Evicts the entry that became evictable last. */
const mostRecent: EvictionPlugin = {
  ...{ name: "most-recent", about: "", source: "" },
  create() {
    const entries: number[] = [];
    return {
      add: (entry) => void entries.push(entry),
      remove: (entry) => void entries.splice(entries.indexOf(entry), 1),
      victim: () => entries.at(-1),
    };
  },
};
