import { beforeAll, describe, expect, test } from "vitest";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "../engine/cuda/emulation/build.ts";
import { ended, fromSource, newFolder, start } from "./program.ts";

const few = ["replay", "example", "--limit", "6", "--blocks", "150", "--target", "cuda", "--fold", "--no-save"];
const run = (args: readonly string[], driver: string) =>
  ended(start(newFolder(), args, { KVLAB_CUDA_DRIVER: driver }, fromSource()));

test("without a CUDA driver --target cuda ends with one line and exit code 2", async () => {
  const { code, stdout, stderr } = await run(few, "libno-such-driver.so");
  expect([code, stdout, stderr]).toEqual([2, "", "kvlab: no CUDA driver: libno-such-driver.so not found\n"]);
});

describe.runIf(canEmulate)("--target cuda in emulation", () => {
  let library = "";
  beforeAll(async () => {
    library = await emulatorLibrary();
  }, buildTimeoutMs);

  test("replay reports the metrics of the other targets, with the backend's name", async () => {
    const { code, stdout } = await run([...few, "--json"], library);
    const { target, engine, cache, latency } = JSON.parse(stdout);
    expect([code, target]).toEqual([0, "cuda"]);
    expect(engine).toMatchObject({ model: "random:tiny", backend: "cuda-emulated", bits: 16 });
    expect(cache.lookups).toBe(6);
    expect(latency.ttftMs.mean).toBeGreaterThan(0);
  });

  test("a pool that does not fit is refused, with the device's name", async () => {
    const { code, stderr } = await run(few.with(5, "99999999"), library);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^kvlab: random:tiny needs .* for 99999999 blocks of 16 tokens, of .* on CPU emulation\n$/);
  });
});
