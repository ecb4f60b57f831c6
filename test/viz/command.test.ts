import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ended, fromSource, newFolder, refusal, start } from "../cli/program.ts";

test("kvlab dashboard says where it is, and Ctrl-C ends it, what it has started and who listens", async () => {
  const folder = newFolder();
  const child = start(folder, ["dashboard", "--port", "0"], {}, fromSource());
  const end = ended(child);
  const url = await new Promise<string>((resolve) => {
    child.stdout!.on("data", (text: string) => resolve(text.split(" ")[0]));
  });
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

test("what cannot be served is refused in one line", async () => {
  const folder = newFolder();
  mkdirSync(join(folder, "run"));
  writeFileSync(join(folder, "run/run.json"), "{}");
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const refused = (...args: string[]) => refusal(folder, ["dashboard", ...args]);
  const said = await Promise.all([
    refusal(folder, ["dashboard", "--port", `${port}`], fromSource()),
    refused("--port", "65536"),
    refused("run"),
    refused("run/run.json"),
    refused("--traces", "nowhere"),
    refused("--policies", "run/run.json"),
  ]);
  server.close();
  expect(said).toEqual([
    `--port ${port}: is in use, perhaps by another dashboard; choose another one, or 0 for any`,
    '--port is "65536", expected a whole number from 0 to 65535',
    "run: is a run, expected the folder that it is in",
    "run/run.json: is a file, expected a folder of runs",
    "--traces nowhere: ENOENT, expected a folder",
    "--policies run/run.json: is a file, expected a folder",
  ]);
});
