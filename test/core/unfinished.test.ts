import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { unfinished } from "../../core/unfinished.ts";

test("files that are still being written are removed when the process exits, finished ones stay", () => {
  const folder = mkdtempSync(join(tmpdir(), "kvlab-unfinished-"));
  const before = new Set(process.listeners("exit"));
  try {
    const [written, finished] = ["written", "finished"].map((name) => join(folder, name));
    for (const path of [written, finished]) {
      writeFileSync(path, "");
      unfinished.add(path);
    }
    unfinished.delete(finished);
    const added = process.listeners("exit").filter((listener) => !before.has(listener));
    expect(added.length).toBe(1);
    added[0](0);
    expect([existsSync(written), existsSync(finished)]).toEqual([false, true]);
    unfinished.delete(written);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
