import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { makeFolder } from "../../core/make-folder.ts";
import { convertTrace, fetchTrace, generateTrace, replay, traceStats } from "../../index.ts";

const root = realpathSync(mkdtempSync(join(tmpdir(), "kvlab-folder-")));
afterAll(() => rmSync(root, { recursive: true }));

test("a folder is created with those above it, and the first new one is returned", () => {
  mkdirSync(join(root, "a"));
  expect(makeFolder(join(root, "a/b/c"))).toBe(join(root, "a/b"));
  expect(existsSync(join(root, "a/b/c"))).toBe(true);
  expect(makeFolder(join(root, "a/b/c"))).toBeUndefined();
});

test("a folder below a file is refused", () => {
  writeFileSync(join(root, "file"), "");
  expect(() => makeFolder(join(root, "file"), "out")).toThrow(/^out: cannot be written \(ENOTDIR\)$/);
  expect(() => makeFolder(join(root, "file/x"), "out")).toThrow(/^out: cannot be written \(ENOTDIR\)$/);
});

// Node's recursive mkdir does not return there.
test.runIf(existsSync("/proc/self"))("every output below /proc is refused in one line that names it", async () => {
  const folder = "/proc/kvlab/x";
  const file = `${folder}/t.jsonl`;
  const trace = join(root, "t.jsonl");
  await generateTrace({ out: trace, requests: 5 });
  const calls: readonly (readonly [string, () => Promise<unknown>])[] = [
    [folder, () => traceStats("example", { limit: 5, plots: folder })],
    [file, () => generateTrace({ out: file, requests: 5 })],
    [file, () => convertTrace(trace, { out: file })],
    [folder, () => fetchTrace("http://localhost:9/t.jsonl", { to: folder })],
    [folder, () => replay("example", { limit: 5, save: { as: folder } })],
    [folder, () => replay("example", { limit: 5, save: { below: folder } })],
  ];
  for (const [path, call] of calls) {
    const error = await call().catch((thrown: unknown) => thrown);
    expect(String(error)).toMatch(new RegExp(`^InputError: ${path}(/[^:]*)?: cannot be written \\(E[A-Z]+\\)$`));
  }
});
