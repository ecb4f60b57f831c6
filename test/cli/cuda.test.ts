import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { cudaBackend } from "../../engine/cuda/backend.ts";
import { randomConfig } from "../../engine/model/random.ts";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "../engine/cuda/emulation/build.ts";
import { ended, newFolder, start } from "./program.ts";

const few = ["replay", "example", "--limit", "6", "--blocks", "150", "--target", "cuda", "--fold", "--no-save"];
const run = (args: readonly string[], driver: string) => ended(start(newFolder(), args, { KVLAB_CUDA_DRIVER: driver }));

test("without a CUDA driver --target cuda ends with one line and exit code 2", async () => {
  const { code, stdout, stderr } = await run(few, "libno-such-driver.so");
  expect([code, stdout, stderr]).toEqual([2, "", "kvlab: no CUDA driver: libno-such-driver.so not found\n"]);
});

test("a driver library that does not load is not reported as missing", async () => {
  const file = fileURLToPath(import.meta.url);
  const { code, stderr } = await run(few, file);
  expect([code, stderr]).toEqual([2, `kvlab: no CUDA driver: ${file} does not load\n`]);
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

  test("--gpu-memory sets the size of the pool: a share of the device's memory, less the weights", async () => {
    const shared = [...few.slice(0, 4), "--gpu-memory", "0.0002", ...few.slice(6)];
    const { stdout } = await run([...shared, "--json"], library);
    const bytes = 4 * 2 ** 30;
    const weights = cudaBackend.memory.weightBytes(randomConfig("tiny"));
    const { policy } = JSON.parse(stdout);
    expect(policy.blocks).toBe(Math.floor((Math.floor(0.0002 * bytes) - weights) / (16 * 256)));
    const refused = await run([...few, "--gpu-memory", "0.5"], library);
    expect(refused.stderr).toBe(
      "kvlab: --gpu-memory and --blocks exclude each other: both set the size of the cache\n",
    );
    const small = await run(shared.with(5, "0.00001"), library);
    expect(small.stderr).toBe(
      "kvlab: --gpu-memory 0.00001 leaves 0 bytes beside the weights, less than the 4096 bytes of one block of 16 tokens\n",
    );
  });

  test("a pool that does not fit is refused, with the device's name", async () => {
    const { code, stderr } = await run(few.with(5, "99999999"), library);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^kvlab: random:tiny needs .* for 99999999 blocks of 16 tokens and .*, of .* on CPU emulation\n$/,
    );
  });
});
