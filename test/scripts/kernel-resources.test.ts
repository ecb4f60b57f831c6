import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { headDimensions, prefillSharedBytes } from "../../engine/cuda/launches.ts";
import { buildFatbin, findNvcc, type KernelResources, occupancyOf } from "../../scripts/kernel-resources.ts";

const minutes = 60_000;

test("registers, shared memory, threads and blocks limit the blocks of a multiprocessor", () => {
  const kernel: KernelResources = { name: "", threads: 128, registers: 32, sharedBytes: 0, spillBytes: 0 };
  expect(occupancyOf(kernel)).toEqual({ blocks: 16, warps: 64 });
  // 168 · 32 = 5,376 = 21 units of 256 registers a warp: 12 warps, 3 blocks.
  expect(occupancyOf({ ...kernel, registers: 168 })).toEqual({ blocks: 3, warps: 12 });
  expect(occupancyOf({ ...kernel, registers: 255 })).toEqual({ blocks: 2, warps: 8 });
  expect(occupancyOf({ ...kernel, sharedBytes: 100_000 })).toEqual({ blocks: 2, warps: 8 });
  expect(occupancyOf({ ...kernel, threads: 1024 })).toEqual({ blocks: 2, warps: 64 });
  expect(occupancyOf({ ...kernel, threads: 32 })).toEqual({ blocks: 32, warps: 32 });
});

const nvcc = findNvcc();

test.runIf(nvcc)(
  "nvcc compiles every kernel for sm_90a without spills",
  () => {
    const resources = buildFatbin(nvcc!, fileURLToPath(new URL("../../engine/cuda/kernels", import.meta.url)));
    expect(resources.length).toBeGreaterThan(50);
    expect(resources.filter(({ spillBytes }) => spillBytes > 0)).toEqual([]);
    const named = (name: string) => resources.find((kernel) => kernel.name === name);
    expect(named("attention_decode_d128_g4")?.threads).toBe(128);
    for (const headDim of headDimensions)
      expect(named(`attention_prefill_d${headDim}`)?.sharedBytes).toBe(prefillSharedBytes(headDim));
  },
  10 * minutes,
);
