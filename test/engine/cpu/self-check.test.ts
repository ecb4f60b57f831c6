import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { selfCheck } from "../../../engine/cpu/self-check.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-self-check-"));
beforeAll(() => vi.stubEnv("XDG_CACHE_HOME", folder));
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

test("the self check passes on this machine, and fails for another model", async () => {
  expect(await selfCheck()).toBeUndefined();
  expect(await selfCheck("random:tiny:2")).toMatch(
    /^logits are off by \d\.\de[+-]\d of the largest, expected less than/,
  );
});
