import { once } from "node:events";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { ended, fromSource, newFolder, start, startReporting, untilDoing } from "./program.ts";

const long = ["replay", "--repeat", "100000"];

describe("a signal ends the program with exit code 130, one line and no files", () => {
  test.each(["SIGINT", "SIGTERM"] as const)("%s during a replay", async (signal) => {
    const folder = newFolder();
    const child = startReporting(folder, long);
    const end = ended(child);
    await untilDoing(child, "replaying");
    child.kill(signal);
    expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
    expect(readdirSync(folder)).toEqual([]);
  });

  test("SIGINT during doctor, after the current check", async () => {
    const folder = newFolder();
    const cache = join(folder, "cache");
    const child = start(folder, ["doctor"], { XDG_CACHE_HOME: cache });
    const end = ended(child);
    // The model of the engine's check is being written.
    for (let i = 0; i < 4000 && !existsSync(cache); i++) await sleep(5);
    child.kill("SIGINT");
    expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
  });

  test.each([
    [
      "policy that never returns",
      "export default { create: () => ({ add() {}, remove() {}, victim() { console.log(1); for (;;); } }) };",
    ],
    ["file that loops forever", "console.log(1); for (;;);"],
  ])("by the system's default action with a %s", async (_, content) => {
    const folder = newFolder();
    writeFileSync(join(folder, "mine.ts"), content);
    const child = start(folder, ["replay", "--eviction", "./mine.ts"]);
    const end = ended(child);
    await once(child.stderr!, "data");
    child.kill("SIGINT");
    expect(await end).toEqual({ code: null, stdout: "", stderr: "1\n" });
    expect(readdirSync(folder)).toEqual(["mine.ts"]);
  });

  test.each(["lru", "./mine.ts"])("while a run of %s is being saved", async (eviction) => {
    const folder = newFolder();
    writeFileSync(join(folder, "mine.ts"), `import { byScore } from "kvlab"; export default { ...byScore("depth") };`);
    const child = start(folder, ["replay", "--events", "--eviction", eviction]);
    const end = ended(child);
    const runs = join(folder, "runs");
    for (let i = 0; i < 2000 && !(existsSync(runs) && readdirSync(runs).length > 0); i++) await sleep(5);
    expect(readdirSync(runs)).toEqual([expect.stringMatching(/^\..*\.tmp$/)]);
    child.kill("SIGINT");
    expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
    expect(readdirSync(folder)).toEqual(["mine.ts"]);
  });
});

test("closing the output ends the program without a message", async () => {
  const child = start(newFolder(), ["policies"]);
  child.stdout?.destroy();
  const { code, stderr } = await ended(child);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test.runIf(existsSync("/dev/full"))("an output error is reported in one line", async () => {
  const full = openSync("/dev/full", "w");
  for (const args of [["policies"], ["--help"]])
    expect(await ended(start(newFolder(), args, {}, undefined, full)), args[0]).toEqual({
      code: 1,
      stdout: "",
      stderr: "kvlab: the output cannot be written (ENOSPC)\n",
    });
  closeSync(full);
});

describe("in a checkout", () => {
  test("the program runs from source, with paths relative to npm's caller", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "there"));
    const env = {
      npm_package_name: "kvlab",
      npm_package_json: join(folder, "package.json"),
      npm_lifecycle_event: "kvlab",
      INIT_CWD: join(folder, "there"),
    };
    const run = (args: readonly string[]) => ended(start(folder, args, env, fromSource()));
    const { stdout: message } = await run(["init", "policy"]);
    expect(message).toContain("\n  npm run -s kvlab -- compare --eviction lru,./mine.ts\n");
    const outside = { ...env, npm_package_json: "/some/kvlab/package.json" };
    const { stdout: again } = await ended(start(folder, ["init", "policy", "--force"], outside, fromSource()));
    expect(again).toContain("\n  npm --prefix /some/kvlab run -s kvlab -- compare");
    expect(readdirSync(join(folder, "there")).sort()).toEqual(["mine.ts", "tsconfig.json"]);
    const { code, stdout } = await run(["replay", "--eviction", "./mine.ts", "--limit", "100", "--no-save"]);
    expect(code).toBe(0);
    expect(stdout).toContain("hash-table + mine");
  });
});
