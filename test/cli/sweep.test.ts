import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { describe, expect, test } from "vitest";
import { Runs } from "../../viz/server/runs.ts";
import { ended, fromBuild, json, kvlab, newFolder, refusal, startReporting, untilDoing } from "./program.ts";
import { addedKeys, manyConfigurations, othersIn, resultsIn, startSweep, sweepFolder } from "./sweep-files.ts";

const small = `
options: {limit: 30}
vary:
  eviction: [lru, fifo]
  blocks: [20, 50%]
`;

test("a sweep has a result for each configuration, equal to a replay of it, and a table", async () => {
  const folder = sweepFolder(small);
  const report = await json(folder, ["sweep", "sweep.yaml", "--workers", "2"]);
  const out = join(folder, "runs/sweep");
  expect(report).toEqual({
    ...{ schema: "sweep/1", kvlab: expect.any(String), folder: "runs/sweep", configurations: 4, distinct: 4, run: 4 },
    ...{ reused: 0, failed: [], table: "runs/sweep/sweep.parquet" },
  });
  expect(othersIn(out)).toEqual(["sweep.json", "sweep.parquet", "times.jsonl"]);
  const { configurations } = JSON.parse(readFileSync(join(out, "sweep.json"), "utf8"));
  const results = resultsIn(out);
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(join(out, "sweep.parquet")) });
  expect(rows).toHaveLength(4);
  for (const [i, { key, eviction, blocks }] of configurations.entries()) {
    const own = ["--eviction", eviction, "--blocks", `${blocks}`, "--limit", "30", "--no-save"];
    const { wallMs: _, blockRefsPerS: __, ...replayed } = await json(folder, ["replay", "example", ...own]);
    const { command, ...result } = JSON.parse(results.get(key)!);
    expect(result).toEqual(replayed);
    expect(command).toContain(`--eviction ${eviction}`);
    expect(rows[i]).toMatchObject({ key, eviction, blocks: String(blocks) });
    expect(rows[i]["cache.hitRatio.block"]).toBe(replayed.cache.hitRatio.block);
  }
  const shown = await new Runs(out).list();
  expect(shown.map(({ id }) => id).sort()).toEqual([...results.keys()]);
  expect(shown).toContainEqual(expect.objectContaining({ eviction: "fifo", blocks: 20, requests: 30 }));
  expect(await new Runs(join(folder, "runs")).list()).toEqual([]);
});

test("a sweep is resumed: results that are there are not run again, missing ones are", async () => {
  const folder = sweepFolder(small);
  const out = join(folder, "runs/sweep");
  await json(folder, ["sweep", "sweep.yaml", "--workers", "1"]);
  const before = resultsIn(out);
  const [first] = before.keys();
  rmSync(join(out, first), { recursive: true });
  const { run, reused } = await json(folder, ["sweep", "sweep.yaml", "--workers", "1"]);
  expect({ run, reused }).toEqual({ run: 1, reused: 3 });
  expect(resultsIn(out)).toEqual(before);
  expect(addedKeys(out)).toHaveLength(5);
});

test("equal configurations are run once: defaults that are written, and rules that are in effect anyway", async () => {
  const folder = sweepFolder(`
options: {limit: 30, blocks: 20}
vary:
  eviction: [lru, fifo]
  index: [hash-table]
  rule.free-order: [reverse, forward]
`);
  writeFileSync(join(folder, "other.yaml"), "options: {limit: 30, blocks: 20, seed: 1}\nvary: {eviction: [lru, fifo]}");
  await json(folder, ["sweep", "sweep.yaml", "--workers", "1", "--out", "out"]);
  const report = await json(folder, ["sweep", "other.yaml", "--workers", "1", "--out", "out"]);
  expect(report).toMatchObject({ configurations: 2, distinct: 2, run: 0, reused: 2 });
});

test("the number of workers and of configurations in a shard does not change a byte", async () => {
  const folder = sweepFolder(manyConfigurations(40));
  await json(folder, ["sweep", "sweep.yaml", "--workers", "1", "--out", "one", "--shard-size", "40"]);
  await json(folder, ["sweep", "sweep.yaml", "--workers", "3", "--out", "three", "--shard-size", "3"]);
  expect(resultsIn(join(folder, "three"))).toEqual(resultsIn(join(folder, "one")));
  expect(resultsIn(join(folder, "one")).size).toBe(40);
  for (const name of ["sweep.json", "sweep.parquet"])
    expect(readFileSync(join(folder, "three", name))).toEqual(readFileSync(join(folder, "one", name)));
});

test("simulations are swept, with options that have parts", async () => {
  const folder = sweepFolder(`
target: sim
options: {limit: 20, gpu: h200, scheduler-option: {max-num-seqs: 8}}
vary:
  preset: [vllm, vllm@0.19]
  rate: {from: 1, to: 4}
sample: {latin-hypercube: 4, seed: 3}
`);
  const report = await json(folder, ["sweep", "sweep.yaml", "--workers", "1"]);
  expect(report).toMatchObject({ configurations: 4, run: 4, failed: [] });
  const file = await asyncBufferFromFile(join(folder, report.table));
  for (const row of await parquetReadObjects({ file })) {
    expect(row["latency.ttftMs.mean"]).toBeGreaterThan(0);
    expect(row["rate"]).toBeGreaterThanOrEqual(1);
  }
  const again = await json(folder, ["sweep", "sweep.yaml", "--workers", "2", "--out", "again"]);
  expect(again.run).toBe(4);
  expect(resultsIn(join(folder, "again"))).toEqual(resultsIn(join(folder, "runs/sweep")));
});

describe("failures", () => {
  test("a user's policy that throws fails its configurations only; its file is part of their names", async () => {
    const folder = sweepFolder("options: {limit: 30, blocks: 20}\nvary: {eviction: [lru, ./mine.ts]}");
    const mine = join(folder, "mine.ts");
    writeFileSync(
      mine,
      "export default { create: () => ({ add() {}, remove() {}, victim() { throw new Error('no'); } }) };",
    );
    const failed = await ended(startSweep(folder, ["sweep", "sweep.yaml", "--workers", "1"]));
    expect(failed).toMatchObject({ code: 1, stderr: "" });
    expect(failed.stdout).toMatch(/failed +1\n.*\n +\.\/mine\.ts: .*no/);
    writeFileSync(join(folder, "order.ts"), 'export const order = "lastAccess";');
    writeFileSync(
      mine,
      'import { byScore } from "kvlab"; import { order } from "./order.ts"; export default byScore(order);',
    );
    const first = await json(folder, ["sweep", "sweep.yaml", "--workers", "1"]);
    expect(first).toMatchObject({ run: 1, reused: 1, failed: [] });
    writeFileSync(join(folder, "order.ts"), 'export const order = "createdAt";');
    expect(await json(folder, ["sweep", "sweep.yaml", "--workers", "1"])).toMatchObject({ run: 1, reused: 1 });
  });

  test("a configuration that ends its worker fails after its retries, without the others of its shard", async () => {
    const folder = sweepFolder("options: {limit: 30, blocks: 20}\nvary: {eviction: [lru, ./mine.ts, fifo]}");
    writeFileSync(
      join(folder, "mine.ts"),
      "export default { create: () => ({ add() {}, remove() {}, victim() { process.kill(process.pid, 'SIGKILL'); } }) };",
    );
    const args = ["sweep", "sweep.yaml", "--workers", "1", "--shard-size", "3", "--retries", "1", "--json"];
    const { code, stdout } = await ended(startSweep(folder, args));
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      run: 2,
      failed: [{ varied: { eviction: "./mine.ts" }, error: "its worker was ended by SIGKILL" }],
    });
  });

  test("a worker that is killed: its shard is run again", async () => {
    const folder = sweepFolder(manyConfigurations(200));
    const out = join(folder, "runs/sweep");
    const child = startSweep(folder, ["sweep", "sweep.yaml", "--workers", "2", "--json"]);
    const end = ended(child);
    for (let i = 0; i < 4000 && !(existsSync(join(out, "times.jsonl")) && resultsIn(out).size > 0); i++) await sleep(5);
    const workers = spawnSync("pgrep", ["-P", `${child.pid}`], { encoding: "utf8" })
      .stdout.trim()
      .split("\n");
    process.kill(Number(workers[0]), "SIGKILL");
    const { code, stdout } = await end;
    expect({ code, ...JSON.parse(stdout) }).toMatchObject({ code: 0, run: 200, failed: [] });
    expect(new Set(addedKeys(out)).size).toBe(200);
    expect(addedKeys(out)).toHaveLength(200);
    expect(othersIn(out)).toEqual(["sweep.json", "sweep.parquet", "times.jsonl"]);
  });

  test("a full disk ends the sweep with one line; every result is whole or absent, and the same command resumes", (context) => {
    const folder = sweepFolder(manyConfigurations(100));
    const inOwn = ["-rm", "sh", "-ec"];
    const script = `
      mkdir runs small && mount -t tmpfs -o size=400k none small
      set +e; "$@" --out small/out; echo "exit code $?"; set -e
      cp -r small/out full; mount -o remount,size=40m small
      "$@" --out small/out --json; cp -r small/out resumed; "$@" --out local --json`;
    if (spawnSync("unshare", ["-rm", "true"]).status !== 0) context.skip("no small file system can be mounted here");
    const args = [process.execPath, ...fromBuild(), "sweep", "sweep.yaml", "--workers", "2"];
    const { stdout, stderr } = spawnSync("unshare", [...inOwn, script, "sh", ...args], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(stdout).toMatch(/^exit code 2\n/);
    expect(stderr).toMatch(/^kvlab: [^\n]*cannot be written \(ENOSPC: no space left on the device\)\n$/);
    const [full, resumed, local] = ["full", "resumed", "local"].map((name) => resultsIn(join(folder, name)));
    expect(full.size).toBeLessThan(100);
    for (const [key, text] of full) expect(text).toBe(local.get(key));
    expect(resumed).toEqual(local);
    expect(othersIn(join(folder, "resumed"))).toEqual(["sweep.json", "sweep.parquet", "times.jsonl"]);
  });
});

describe("cancellation", () => {
  test.each(["SIGINT", "SIGTERM"] as const)(
    "%s: complete results stay, and the same command resumes",
    async (signal) => {
      const folder = sweepFolder(manyConfigurations(300));
      const out = join(folder, "runs/sweep");
      const child = startReporting(folder, ["sweep", "sweep.yaml", "--workers", "1"]);
      const end = ended(child);
      await untilDoing(child, "running on 1 local worker");
      for (let i = 0; i < 4000 && resultsIn(out).size === 0; i++) await sleep(5);
      child.kill(signal);
      const { code, stdout, stderr } = await end;
      expect({ code, stdout }).toEqual({ code: 130, stdout: "" });
      expect(stderr).toMatch(/^kvlab: interrupted after \d+ of 300 configurations; the same command resumes it\n$/);
      expect(othersIn(out)).toEqual(["sweep.json", "times.jsonl"]);
      const before = resultsIn(out).size;
      expect(await json(folder, ["sweep", "sweep.yaml"])).toMatchObject({ reused: before, run: 300 - before });
    },
  );

  test("a sweep that was killed leaves no worker, and the next one removes its files", async () => {
    const folder = sweepFolder(manyConfigurations(300));
    const out = join(folder, "runs/sweep");
    const child = startSweep(folder, ["sweep", "sweep.yaml", "--workers", "1"]);
    const end = ended(child);
    for (let i = 0; i < 4000 && !(existsSync(out) && resultsIn(out).size > 0); i++) await sleep(5);
    const worker = Number(spawnSync("pgrep", ["-P", `${child.pid}`], { encoding: "utf8" }).stdout);
    child.kill("SIGKILL");
    await end;
    await expect
      .poll(() => spawnSync("ps", ["-p", `${worker}`, "-o", "stat="], { encoding: "utf8" }).stdout)
      .not.toMatch(/^[RSD]/);
    expect(readdirSync(out).some((name) => name.startsWith(".shards."))).toBe(true);
    await json(folder, ["sweep", "sweep.yaml"]);
    expect(othersIn(out)).toEqual(["sweep.json", "sweep.parquet", "times.jsonl"]);
  });
});

describe("bad input is one line with file and line, and nothing is written", () => {
  test.each([
    ["an empty file", "", "sweep.yaml:1: is empty, expected a sweep: trace, options, vary"],
    ["no YAML", "vary: [", /^sweep\.yaml:1: is not YAML or JSON: /],
    ["an unknown field", "\nvarry: {}", "sweep.yaml:2: varry: unknown field"],
    [
      "a name twice",
      "options:\n  limit: 1\n  limit: 2",
      /^sweep\.yaml:3: is not YAML or JSON: Map keys must be unique/,
    ],
    [
      "an unknown option",
      "vary:\n  evction: [lru]",
      'sweep.yaml:2: unknown option "evction"; did you mean "eviction"?',
    ],
    ["an unknown policy", "vary:\n  eviction:\n    - lru\n    - lfuu", /^sweep\.yaml:3: .*"lfuu".*did you mean "lfu"/],
    ["a bad value", "vary:\n  blocks:\n    - 10\n    - 0", /^sweep\.yaml:4: --blocks is "0", expected/],
    ["a fixed value in vary", "vary: {eviction: lru}", /^sweep\.yaml:1: vary\.eviction: is "lru", expected a list/],
    ["an empty list", "vary: {eviction: []}", "sweep.yaml:1: vary.eviction: is empty, expected values"],
    ["a value twice", "vary: {eviction: [lru, fifo, lru]}", 'sweep.yaml:1: eviction has "lru" twice'],
    [
      "an option twice",
      "options: {seed: 1}\nvary:\n  seed: [1, 2]",
      "sweep.yaml:3: seed is also in options, expected it once",
    ],
    [
      "a range without step",
      "vary:\n  blocks: {from: 1, to: 9}",
      /^sweep\.yaml:2: vary\.blocks has neither step nor count/,
    ],
    ["another target's option", "options: {limit: 9}\nvary:\n  rate: [1]", /^sweep\.yaml:3: --rate needs --target sim/],
    [
      "an option of one run",
      "options: {events: true}",
      "sweep.yaml:1: events is an option of one run, which a sweep does not have",
    ],
    ["a rule that the index lacks", "options:\n  rule: {victim-unit: node}", /^sweep\.yaml:/],
    [
      "a rule twice",
      "options:\n  rule: [victims=any, victims=leaf]",
      "sweep.yaml:2: rule.victims is given twice, expected once",
    ],
    ["no value", "options:\n  blocks:", /^sweep\.yaml:2: options\.blocks: expected a text, a number/],
    ["no such trace", "trace: none.jsonl", "none.jsonl: no such file"],
    ["no such plug-in", "vary: {eviction: [./none.ts]}", /none\.ts/],
  ])("%s", async (_, text, message) => {
    const refused = await refusal(sweepFolder(text), ["sweep", "sweep.yaml"]);
    if (typeof message === "string") expect(refused).toBe(message);
    else expect(refused).toMatch(message);
  });

  test.each([
    [["--on", "cloud"], '--on is "cloud", expected local, slurm, or an address such as redis://127.0.0.1:6379'],
    [["--on", "slurm", "--workers", "2"], "--workers needs --on local: with --on slurm others start the workers"],
    [["--sbatch=--x"], "--sbatch needs --on slurm"],
    [["--on", "redis://127.0.0.1:1"], "redis://127.0.0.1:1: cannot connect (ECONNREFUSED)"],
  ])("%j", async (args, message) => {
    const folder = sweepFolder(small);
    expect(await refusal(folder, ["sweep", "sweep.yaml", ...args])).toBe(message);
  });

  test("a folder that is not a sweep is not written to", async () => {
    const folder = sweepFolder(small);
    expect(await refusal(folder, ["sweep", "sweep.yaml", "--out", "."])).toMatch(/is the current directory/);
    await kvlab(folder, ["replay", "--limit", "20", "--out", "run"]);
    expect(await refusal(folder, ["sweep", "sweep.yaml", "--out", "run"])).toMatch(/^run: has .* is not a sweep/);
  });
});

test("--dry-run states the number of configurations and the first commands, and writes nothing", async () => {
  const folder = sweepFolder(manyConfigurations(2000));
  const { code, stdout } = await kvlab(folder, ["sweep", "sweep.yaml", "--dry-run"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^2,000 configurations\n {2}kvlab replay --limit=20 .*\n(.*\n)*? {2}and 1,995 more\n$/);
  expect(readdirSync(folder)).toEqual(["sweep.yaml"]);
});

test("a worker refuses a shard of another version, and one whose trace has other content", async () => {
  const folder = newFolder();
  writeFileSync(
    join(folder, "trace.jsonl"),
    '{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1]}\n',
  );
  const shard = {
    ...{ schema: "shard/1", kvlab: "0.0.0", folder, trace: [], inputs: [] },
    configurations: [{ key: "0".repeat(32), options: { target: "cache", seed: 1 } }],
  };
  const refused = async (content: object) => {
    writeFileSync(join(folder, "shard.json"), JSON.stringify(content));
    return await refusal(folder, ["worker", "shard.json"]);
  };
  expect(await refused(shard)).toMatch(/^shard\.json: is a shard of kvlab 0\.0\.0, this is/);
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  const trace = [{ path: "trace.jsonl", sha256: "0".repeat(64) }];
  expect(await refused({ ...shard, kvlab: version, trace })).toMatch(/trace\.jsonl: has other content/);
  const writing = { ...shard.configurations[0], options: { target: "cache", seed: 1, timeline: "x.json" } };
  expect(await refused({ ...shard, kvlab: version, configurations: [writing] })).toMatch(/has an option that a sweep/);
  expect(await refused([])).toMatch(/expected a shard/);
});
