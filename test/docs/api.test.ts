import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "kvlab-api-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("docs/api documents every export of the package as it is now; npm run docs:api writes it", () => {
  const typedoc = join("node_modules", "typedoc", "bin", "typedoc");
  const { status, stdout, stderr } = spawnSync(process.execPath, [typedoc, "--out", folder], { encoding: "utf8" });
  expect({ status, said: stdout + stderr }).toMatchObject({ status: 0 });
  expect(readdirSync("docs/api").sort()).toEqual(readdirSync(folder).sort());
  for (const name of readdirSync(folder))
    expect(readFileSync(join("docs/api", name), "utf8")).toBe(readFileSync(join(folder, name), "utf8"));
});
