import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { hasRedis, RedisServer } from "../support/servers.ts";
import { ended, fromBuild, newFolder } from "./program.ts";
import { addedKeys, manyConfigurations, othersIn, resultsIn, startSweep, sweepFolder } from "./sweep-files.ts";

/** `KVLAB_LONG=1` runs as many as the documentation states. */
const count = process.env["KVLAB_LONG"] === "1" ? 2000 : 200;

/** A worker that ends with the test, and a function that resolves after it has run so many shards. */
function startWorker(folder: string, address: string, args: readonly string[] = []) {
  const child = startSweep(folder, ["worker", address, ...args]);
  onTestFinished(() => void child.kill("SIGKILL"));
  let ran = 0;
  let wake = () => {};
  createInterface({ input: child.stderr! }).on("line", (line) => {
    if (line.startsWith("kvlab: ran shard")) ran++;
    wake();
  });
  const hasRun = async (shards: number) => {
    while (ran < shards)
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
  };
  return { child, hasRun };
}

async function stopped(child: ChildProcess): Promise<void> {
  const end = ended(child);
  child.kill("SIGTERM");
  expect((await end).code).toBe(0);
}

describe.runIf(hasRedis)("a sweep on a Redis", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis.end());

  test(`${count} configurations while a worker is killed, Redis loses its content and the disk fills: every result once, as on this machine`, async (context) => {
    if (spawnSync("unshare", ["-rm", "true"]).status !== 0) context.skip("no small file system can be mounted here");
    const folder = sweepFolder(manyConfigurations(count));
    const workers = [startWorker(folder, redis.address), startWorker(folder, redis.address)];
    // The first call of the sweep has space for about half of the results, the second one for all.
    const script = `
      mkdir small && mount -t tmpfs -o size=${count * 2}k none small
      set +e; "$@" --on $REDIS --out small/out; echo "exit code $?"; set -e
      cp -r small/out full; mount -o remount,size=400m small
      "$@" --on $REDIS --out small/out --json; cp -r small/out resumed`;
    const program = [process.execPath, ...fromBuild(), "sweep", "sweep.yaml", "--shard-size", "2"];
    const sweeping = spawn("unshare", ["-rm", "sh", "-ec", script, "sh", ...program], {
      cwd: folder,
      env: { ...process.env, REDIS: redis.address },
    });
    onTestFinished(() => void sweeping.kill("SIGKILL"));
    const end = ended(sweeping);
    await workers[0].hasRun(5);
    workers[0].child.kill("SIGKILL");
    await workers[1].hasRun(15);
    await redis.kill();
    await redis.start();
    const { code, stdout, stderr } = await end;
    expect(stdout).toMatch(/^exit code 2\n/);
    expect(stderr).toMatch(/^kvlab: [^\n]*cannot be written \(ENOSPC: no space left on the device\)$/m);
    const resumed = JSON.parse(stdout.slice(stdout.indexOf("{")));
    expect({ code, ...resumed }).toMatchObject({ code: 0, configurations: count, distinct: count, failed: [] });
    expect(resumed.run + resumed.reused).toBe(count);
    expect(resumed.reused).toBeGreaterThan(0);
    await stopped(workers[1].child);

    const local = await ended(startSweep(folder, ["sweep", "sweep.yaml", "--out", "local"]));
    expect(local).toMatchObject({ code: 0, stderr: "" });
    const [full, all, expected] = ["full", "resumed", "local"].map((name) => resultsIn(join(folder, name)));
    expect(expected.size).toBe(count);
    expect(all).toEqual(expected);
    for (const [key, text] of full) expect(text).toBe(expected.get(key));
    expect(othersIn(join(folder, "resumed"))).toEqual(["sweep.json", "sweep.parquet", "times.jsonl"]);
    rmSync(join(folder, "full"), { recursive: true });
    rmSync(join(folder, "local"), { recursive: true });
    // The times of results that filled the disk may be missing.
    expect(new Set(addedKeys(join(folder, "resumed"))).size).toBe(addedKeys(join(folder, "resumed")).length);
  });

  test("Ctrl-C of the sweep and of a worker; a sweep without workers says so; the same command resumes", async () => {
    const folder = sweepFolder(manyConfigurations(50));
    const args = ["sweep", "sweep.yaml", "--on", redis.address];
    const child = startSweep(folder, args);
    let said = "";
    await new Promise<void>((resolve) =>
      child.stderr!.on("data", (text) => {
        said += text;
        if (said.includes("\n")) resolve();
      }),
    );
    expect(said).toBe(`kvlab: note: no worker is connected; kvlab worker ${redis.address} starts one\n`);
    const end = ended(child);
    child.kill("SIGINT");
    expect(await end).toMatchObject({
      code: 130,
      stderr: "kvlab: interrupted after 0 of 50 configurations; the same command resumes it\n",
    });
    const worker = startWorker(folder, redis.address);
    const { code, stdout } = await ended(startSweep(folder, [...args, "--json"]));
    expect({ code, ...JSON.parse(stdout) }).toMatchObject({ code: 0, run: 50, failed: [] });
    const stop = ended(worker.child);
    worker.child.kill("SIGINT");
    expect((await stop).code).toBe(0);
  });

  test("a worker finds the trace in its --traces folder; one that has another trace of that name ends with a message", async () => {
    const folder = sweepFolder("trace: traces/mine.jsonl\nvary: {eviction: [lru, fifo]}\noptions: {blocks: 2}");
    const line = (block: number) => `{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [${block}]}\n`;
    const [elsewhere, other] = [newFolder(), newFolder()];
    spawnSync("mkdir", [join(folder, "traces")]);
    writeFileSync(join(folder, "traces/mine.jsonl"), line(1) + line(1));
    writeFileSync(join(elsewhere, "mine.jsonl"), line(1) + line(1));
    writeFileSync(join(other, "mine.jsonl"), line(1) + line(2));
    const child = startSweep(folder, ["sweep", "sweep.yaml", "--on", redis.address, "--out", "redis"]);
    const sweeping = ended(child);
    const told = new Promise<void>((resolve) => {
      child.stderr!.on("data", (text) => /a worker refused a shard: .*mine\.jsonl/.test(text) && resolve());
    });
    // Shards name the folder of the sweep, which these workers must not see.
    const hidden = (traces: string) => {
      const script = 'mount -t tmpfs none "$0" && exec "$@"';
      const program = [process.execPath, ...fromBuild(), "worker", redis.address, "--traces", traces];
      const child = spawn("unshare", ["-rm", "sh", "-ec", script, join(folder, "traces"), ...program]);
      onTestFinished(() => void child.kill("SIGKILL"));
      return child;
    };
    const refused = await ended(hidden(other));
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(
      /^kvlab: shard shard-\S+: .*no such file; .*mine\.jsonl: has other content .*; --traces DIR names a folder that has the files\n$/,
    );
    await told;
    hidden(elsewhere);
    expect((await sweeping).code).toBe(0);
    const local = await ended(startSweep(folder, ["sweep", "sweep.yaml", "--out", "local", "--workers", "1"]));
    expect(local.code).toBe(0);
    expect(resultsIn(join(folder, "redis"))).toEqual(resultsIn(join(folder, "local")));
  });
});
