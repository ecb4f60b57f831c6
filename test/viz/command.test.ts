import type { ChildProcess } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Job } from "../../viz/api.ts";
import { type Ended, ended, newFolder, refusal, start } from "../cli/program.ts";

/** Starts a dashboard; returns its process and address. */
async function serve(folder: string): Promise<{ child: ChildProcess; end: Promise<Ended>; url: string }> {
  const child = start(folder, ["dashboard", "--port", "0"]);
  const end = ended(child);
  const url = await new Promise<string>((resolve) => {
    child.stdout!.on("data", (text: string) => resolve(text.split(" ")[0]));
  });
  return { child, end, url };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("kvlab dashboard prints its address, and Ctrl-C ends it, its jobs and its connections", async () => {
  const folder = newFolder();
  const { child, end, url } = await serve(folder);
  expect(url).toMatch(/^http:\/\/127.0.0.1:\d+\/$/);
  const html = await (await fetch(url)).text();
  expect(html).toContain("app.js");
  expect((await fetch(new URL("app.js", url))).status).toBe(200);
  const events = await fetch(new URL("api/events", url));
  const posted = await fetch(new URL("api/jobs", url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ trace: "example", target: "sim", evictions: ["lru", "fifo"] }),
  });
  expect(posted.status).toBe(201);
  child.kill("SIGINT");
  expect(await events.text()).toContain("event: runs\n");
  const { code, stderr } = await end;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("the next dashboard removes the staging folders of a killed one and ends its job", async () => {
  const folder = newFolder();
  /** Starts a job and returns its process, once it has saved a run. */
  const long = async (url: string): Promise<number> => {
    const blocks = Array.from({ length: 50 }, (_, i) => `${1000 + i}`);
    const posted = await fetch(new URL("api/jobs", url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ trace: "example", target: "cache", evictions: ["lru"], blocks }),
    });
    expect(posted.status).toBe(201);
    for (;;) {
      const [{ pid, runs }] = (await (await fetch(new URL("api/jobs", url))).json()) as Job[];
      if (pid !== null && runs.length > 0) return pid;
      await sleep(50);
    }
  };
  const staged = () => readdirSync(join(folder, "runs")).filter((name) => name.startsWith(".job-"));
  const [killed, running] = await Promise.all([serve(folder), serve(folder)]);
  const pid = await long(killed.url);
  const [left] = staged();
  killed.child.kill("SIGKILL");
  await killed.end;
  await long(running.url);
  while (isAlive(pid)) await sleep(50);
  expect(staged()).toContain(left);
  const next = await serve(folder);
  expect(staged()).toHaveLength(1);
  expect(staged()).not.toContain(left);
  for (const { child } of [running, next]) child.kill("SIGINT");
  await Promise.all([running.end, next.end]);
  expect(staged()).toEqual([]);
});

test("a port or folder that cannot be served is refused in one line", async () => {
  const folder = newFolder();
  mkdirSync(join(folder, "run"));
  writeFileSync(join(folder, "run/run.json"), "{}");
  mkdirSync(join(folder, "yours,mine"));
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const refused = (...args: string[]) => refusal(folder, ["dashboard", ...args]);
  const messages = await Promise.all([
    refusal(folder, ["dashboard", "--port", `${port}`]),
    refused("--port", "65536"),
    refused("run"),
    refused("run/run.json"),
    refused("--traces", "nowhere"),
    refused("--policies", "run/run.json"),
    refused("--policies", "yours,mine"),
  ]);
  server.close();
  expect(messages).toEqual([
    `--port ${port}: is in use, perhaps by another dashboard; choose another one, or 0 for any`,
    '--port is "65536", expected a whole number from 0 to 65535',
    "run: is a single run, expected the folder that contains it",
    "run/run.json: is a file, expected a folder of runs",
    "--traces nowhere: ENOENT, expected a folder",
    "--policies run/run.json: is a file, expected a folder",
    "--policies yours,mine: has a comma, expected a path without one",
  ]);
});
