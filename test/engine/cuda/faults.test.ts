import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findSanitizer } from "../../../scripts/compiler.ts";
import { buildTimeoutMs, canEmulate, emulatorLibrary, kernelFolder, sanitizerEnvironment } from "./emulation/build.ts";
import { checkedHeadDimension, checks } from "./emulation/checks.ts";
import { Device } from "./emulation/device.ts";

const root = mkdtempSync(join(tmpdir(), "kvlab-faults-"));
afterAll(() => rmSync(root, { recursive: true }));

interface Fault {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** A copy of the kernels with faults. Each replaces the only occurrence of its text. */
function faulty(name: string, faults: readonly Fault[]): string {
  const folder = join(root, name);
  cpSync(kernelFolder, folder, { recursive: true });
  for (const { file, from, to } of faults) {
    const path = join(folder, file);
    const parts = readFileSync(path, "utf8").split(from);
    expect(parts.length, `occurrences of ${JSON.stringify(from)} in ${file}`).toBe(2);
    writeFileSync(path, parts.join(to));
  }
  return folder;
}

const build = (folder: string, sanitize = false) =>
  emulatorLibrary({ kernels: folder, headDimension: checkedHeadDimension, sanitize });

const droppedBarrier: Fault = {
  file: "attention-prefill.cuh",
  from: "    cp_async_wait<1>();\n    __syncthreads();\n",
  to: "    cp_async_wait<1>();\n",
};
const wrongTable: Fault = {
  file: "attention-decode.cuh",
  from: "tables + (size_t)sequence * tableStride",
  to: "tables + (size_t)blockIdx.x * tableStride",
};
const maskOffByOne: Fault = {
  file: "attention-prefill.cuh",
  from: "if (key > query || ",
  to: "if (key > query + 1 || ",
};
const missingCopy: Fault = {
  file: "blocks.cuh",
  from: "  copy_elements(values + to, values + from, blockElements);\n",
  to: "",
};
const divergentBarrier: Fault = {
  file: "norms.cuh",
  from: "  float mean = block_sum(sum, sums) / (float)H;",
  to: "  float mean = threadIdx.x < 32 ? block_sum(sum, sums) / (float)H : 0.0f;",
};
/** A barrier of the warp instead of the block. */
const race: Fault = {
  file: "sampling.cuh",
  from: "    __syncthreads();\n    // Written again only after the next barriers.",
  to: "    __syncwarp();\n",
};
/** Harmless unless the memory past the end is used: the maximum of one split more. */
const outOfBounds: Fault = {
  file: "attention-decode.cuh",
  from: "for (int split = lane; split < splits; split += 32) most",
  to: "for (int split = lane; split <= splits; split += 32) most",
};

/** Whether a check finds wrong results in some warp order. */
function failsInSomeOrder(device: Device, check: (device: Device) => boolean): boolean {
  const seeds = Array.from({ length: 20 }, (_, seed) => seed + 1);
  const fails = seeds.some((seed) => {
    device.setWarpOrder(seed);
    return !check(device);
  });
  device.setWarpOrder(0);
  return fails;
}

describe.runIf(canEmulate)("a planted fault is found:", () => {
  let first: Device;
  let second: Device;
  beforeAll(async () => {
    const libraries = await Promise.all([
      build(faulty("first", [droppedBarrier, wrongTable, missingCopy, race])),
      build(faulty("second", [maskOffByOne, divergentBarrier])),
    ]);
    [first, second] = libraries.map((library) => new Device(library));
  }, buildTimeoutMs);

  test("a dropped barrier", () => expect(checks.prefill(first)).toBe(false));
  test("the block table of another sequence", () => expect(checks.decode(first)).toBe(false));
  test("values that are not copied", () => expect(checks.copyBlocks(first)).toBe(false));
  test("a causal mask that is off by one", () => expect(checks.prefill(second)).toBe(false));

  test("a race that only some orders of warps show", () => {
    expect(checks.topK(first)).toBe(true);
    expect(failsInSomeOrder(first, checks.topK)).toBe(true);
  });

  test("a barrier that only some threads reach; every later call fails", () => {
    expect(() => checks.layerNorm(second)).toThrow("CUDA error 719");
    expect(() => checks.copyBlocks(second)).toThrow("CUDA error 719");
  });
});

/** Runs checks in a process with AddressSanitizer. */
async function sanitized(library: string, names: readonly string[]) {
  const program = join(import.meta.dirname, "emulation/sanitized.ts");
  const env = { ...process.env, ...sanitizerEnvironment() };
  const child = spawn(process.execPath, ["--import", "tsx", program, library, ...names], { env });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => (stdout += text));
  child.stderr.on("data", (text) => (stderr += text));
  const [code] = await once(child, "close");
  return { code, stdout, stderr };
}

describe.runIf(canEmulate && findSanitizer() !== undefined)("AddressSanitizer", () => {
  test(
    "finds a read past the last split, and nothing in the other kernels",
    async () => {
      const others = Object.keys(checks).filter((name) => name !== "decode");
      const library = await build(faulty("bounds", [outOfBounds]), true);
      const { code, stdout, stderr } = await sanitized(library, [...others, "decode"]);
      expect(stdout).toBe(others.map((name) => `${name}: correct\n`).join(""));
      expect(stderr).toContain("heap-buffer-overflow");
      expect(stderr).toContain("attention_merge");
      expect(code).not.toBe(0);
    },
    buildTimeoutMs,
  );
});
