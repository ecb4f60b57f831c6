import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { logDigests } from "./logged-runs.ts";

// After a change that is meant to change decisions: KVLAB_GOLDEN=write npx vitest run test/golden/event-log.test.ts
const file = new URL("event-logs.json", import.meta.url);

test("event logs are those of the golden file", async () => {
  const digests = await logDigests();
  if (process.env["KVLAB_GOLDEN"] === "write") writeFileSync(file, `${JSON.stringify(digests, null, 2)}\n`);
  expect(digests).toEqual(JSON.parse(readFileSync(file, "utf8")));
});

test("another process writes the same event logs, byte for byte", async () => {
  const runs = fileURLToPath(new URL("logged-runs.ts", import.meta.url));
  const program = `import(${JSON.stringify(runs)}).then(async (m) => console.log(JSON.stringify(await m.logDigests())))`;
  const printed = execFileSync(process.execPath, ["--import", "tsx", "-e", program], { encoding: "utf8" });
  expect(JSON.parse(printed)).toEqual(await logDigests());
});
