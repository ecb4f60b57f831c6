import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasSlurm, SlurmCluster } from "../support/servers.ts";
import { ended } from "./program.ts";
import { addedKeys, manyConfigurations, othersIn, resultsIn, startSweep, sweepFolder } from "./sweep-files.ts";

/** `KVLAB_LONG=1` runs as many as the documentation states. */
const count = process.env["KVLAB_LONG"] === "1" ? 2000 : 30;

describe.runIf(hasSlurm)("a sweep on Slurm", () => {
  let cluster: SlurmCluster;
  beforeAll(async () => {
    cluster = await SlurmCluster.start();
  });
  afterAll(() => cluster.end());

  /** Elements in the queue, as JOB_ELEMENT. */
  const queued = () =>
    cluster.run("squeue", "--noheader", "--array", "--format", "%F_%K").trim().split("\n").filter(Boolean);

  async function untilQueued(): Promise<string[]> {
    for (let left = 600; ; left--) {
      const found = queued();
      if (found.length > 0 || left === 0) return found;
      await sleep(50);
    }
  }

  test(`${count} configurations while an element is cancelled: it is submitted again; every result once, as on this machine`, async () => {
    const folder = sweepFolder(manyConfigurations(count));
    const args = ["sweep", "sweep.yaml", "--on", "slurm", "--out", "slurm", "--json"];
    const end = ended(startSweep(folder, [...args, "--shard-size", `${count / 5}`, "--sbatch=--time=10"], cluster.env));
    const [, , third] = await untilQueued();
    cluster.run("scancel", third);
    const { code, stdout, stderr } = await end;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(stdout)).toMatchObject({ run: count, failed: [] });
    const local = await ended(startSweep(folder, ["sweep", "sweep.yaml", "--out", "local"]));
    expect(local.code).toBe(0);
    expect(resultsIn(join(folder, "slurm"))).toEqual(resultsIn(join(folder, "local")));
    expect(resultsIn(join(folder, "slurm")).size).toBe(count);
    expect(addedKeys(join(folder, "slurm"))).toHaveLength(count);
    expect(othersIn(join(folder, "slurm"))).toEqual(["sweep.json", "sweep.parquet", "times.jsonl"]);
    expect(cluster.run("squeue", "--noheader")).toBe("");
    rmSync(join(folder, "local"), { recursive: true });
  });

  test("Ctrl-C cancels the array", async () => {
    const folder = sweepFolder(manyConfigurations(50));
    const child = startSweep(
      folder,
      ["sweep", "sweep.yaml", "--on", "slurm", "--sbatch=--begin=now+1hour"],
      cluster.env,
    );
    const end = ended(child);
    expect(await untilQueued()).toHaveLength(50);
    child.kill("SIGINT");
    const { code, stderr } = await end;
    expect({ code, stderr }).toEqual({
      code: 130,
      stderr: "kvlab: interrupted after 0 of 50 configurations; the same command resumes it\n",
    });
    await expect.poll(queued).toEqual([]);
    expect(existsSync(join(folder, "runs/sweep/sweep.json"))).toBe(true);
  });

  test("an option that sbatch refuses is stated in one line", async () => {
    const folder = sweepFolder(manyConfigurations(10));
    const args = ["sweep", "sweep.yaml", "--on", "slurm", "--sbatch=--partition=none"];
    const { code, stderr } = await ended(startSweep(folder, args, cluster.env));
    expect(code).toBe(2);
    expect(stderr).toMatch(/^kvlab: sbatch: [^\n]*invalid partition[^\n]*\n$/);
  });
});
