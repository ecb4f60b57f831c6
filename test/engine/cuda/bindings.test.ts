import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Cublas, cublasPrototypes } from "../../../engine/cuda/cublas.ts";
import { Device } from "../../../engine/cuda/device.ts";
import { CudaError, driverPrototypes, openDriver } from "../../../engine/cuda/driver.ts";
import { loadKernels, wholeSource } from "../../../engine/cuda/kernel-image.ts";
import { headDimensions, kernelParameters, Launches } from "../../../engine/cuda/launches.ts";
import { UnavailableError } from "../../../engine/executor.ts";
import { canEmulate, tinyConfig, useEmulator } from "./decoders.ts";
import { kernelFolder } from "./emulation/build.ts";

useEmulator();

/** Types of the parameters of a C declaration, without spaces and qualifiers of aliasing. */
const parametersOf = (list: string): string[] =>
  list.split(",").map((one) => one.replace(/\w+\s*$/, "").replace(/__restrict__|\s/g, ""));

describe("the parameters of kernels", () => {
  const source = readdirSync(kernelFolder)
    .filter((name) => name.endsWith(".cuh"))
    .map((name) => readFileSync(`${kernelFolder}/${name}`, "utf8").replaceAll("\\\n", "\n"))
    .join("\n");
  const kernels =
    /extern "C" __global__ void\s+(?:__launch_bounds__\([^{;]*?\)\s+)?(\w+?)(?:d##D(?:##_g##G)?)?\(([^)]*)\)\s*\{/g;
  const declared = new Map([...source.matchAll(kernels)].map(([, name, list]) => [name, parametersOf(list)]));

  test.each(Object.entries(kernelParameters))("%s has those of its source", (name, list) => {
    expect(parametersOf(list)).toEqual(declared.get(name));
  });

  test("all kernels are declared", () => {
    expect(Object.keys(kernelParameters).sort()).toEqual([...declared.keys()].sort());
  });

  test("the source for NVRTC is one text without includes, with every file once", () => {
    const whole = wholeSource("kernels.cu");
    expect(whole).not.toContain("#include");
    expect(whole.split("void embed(")).toHaveLength(2);
  });
});

describe("prototypes of libraries", () => {
  /** Bytes by which a parameter is passed. */
  const bytesOf = (parameter: string): number => {
    if (/\*|Address|size_t|64|long long/.test(parameter)) return 8;
    return /char/.test(parameter) ? 1 : 4;
  };
  const exported = (file: string) =>
    readFileSync(new URL(`./emulation/${file}`, import.meta.url), "utf8").matchAll(/EXPORT int (\w+)\(([^)]*)\)/g);
  const emulated = new Map(
    [...exported("driver.cpp"), ...exported("cublas.h")].map(([, name, list]) => [name, list.split(",").map(bytesOf)]),
  );

  test.each(Object.entries({ ...driverPrototypes, ...cublasPrototypes }))(
    "%s passes as many bytes as its definition in the emulator",
    (name, prototype) => {
      const [, list] = /\((.*)\)$/.exec(prototype)!;
      expect(prototype).toMatch(new RegExp(`^int ${name}\\(`));
      expect(list.split(",").map(bytesOf)).toEqual(emulated.get(name));
    },
  );
});

describe.runIf(canEmulate)("the device", () => {
  test("reports errors by name, with the call", () => {
    const device = Device.open();
    const { freeBytes } = device.memory();
    expect(() => device.allocate(2 ** 50, "a pool")).toThrow(
      /^out of memory: a pool needs 1048576\.0 GiB of \d\.\d GiB free on CPU emulation$/,
    );
    expect(() => loadKernels(device)("no_such_kernel")).toThrow(
      new CudaError("cuModuleGetFunction of no_such_kernel failed: CUDA_ERROR_NOT_FOUND", 500),
    );
    device.allocate(1000, "something");
    device.allocatePinned(1000);
    expect(device.memory().freeBytes).toBeLessThan(freeBytes);
    device.close();
    expect(openDriver().driver.cuInit(0)).toBe(0);
  });

  test("a driver without a device is reported in one line", () => {
    process.env["KVLAB_EMULATOR_DEVICES"] = "0";
    try {
      expect(() => Device.open()).toThrow(new UnavailableError("no CUDA device: cuInit failed: CUDA_ERROR_NO_DEVICE"));
    } finally {
      delete process.env["KVLAB_EMULATOR_DEVICES"];
    }
    Device.open().close();
  });

  test("an error while work is captured ends the capture", () => {
    const device = Device.open();
    const failing = () =>
      device.capture(() => {
        throw new Error("no");
      });
    expect(failing).toThrow("no");
    const memory = device.allocate(16, "numbers");
    const pinned = device.allocatePinned(16);
    const graph = device.capture(() => device.fillZero(memory.address, 16));
    device.download(pinned.address, memory.address, 16);
    device.synchronize();
    expect(new Uint8Array(pinned.buffer)[0]).toBe(255);
    graph.launch();
    device.download(pinned.address, memory.address, 16);
    device.synchronize();
    expect([...new Uint8Array(pinned.buffer)]).toEqual(Array(16).fill(0));
    device.close();
  });

  test("every kernel that a model may need is in the module", () => {
    const device = Device.open();
    const find = loadKernels(device);
    for (const headDim of headDimensions) {
      expect(find(`attention_prefill_d${headDim}`)).not.toBe(0n);
      for (const group of [1, 2, 4, 8]) expect(find(`attention_decode_d${headDim}_g${group}`)).not.toBe(0n);
    }
    device.close();
  });

  test("products of cuBLAS and of our own kernel are equal within float32 rounding", () => {
    const device = Device.open();
    const launches = new Launches(device, loadKernels(device), tinyConfig("llama"), 16);
    const cublas = Cublas.open(device)!;
    expect(cublas.version).toBe(130_000);
    for (const [M, N, K, transposed] of [
      [3, 40, 72, false],
      [70, 130, 64, false],
      [1, 259, 96, true],
      [65, 64, 33, true],
    ] as const) {
      const [A, B] = [M * K, K * N].map((count, i) => {
        const memory = device.allocate(2 * count, "a matrix");
        launches.fillRandom(memory.address, count, 7 + i, 0, 1);
        return memory.address;
      });
      const products = [cublas, launches].map((library) => {
        const C = device.allocate(4 * M * N, "a product");
        library.multiply(C.address, A, B, M, N, K, transposed, true);
        const pinned = device.allocatePinned(4 * M * N);
        device.download(pinned.address, C.address, 4 * M * N);
        device.synchronize();
        return new Float32Array(pinned.buffer);
      });
      // K products of at most 1, summed in another order.
      const difference = products[0].reduce((most, value, i) => Math.max(most, Math.abs(value - products[1][i])), 0);
      expect(difference).toBeLessThan(K * 2 ** -22);
      expect(products[0].some((value) => Math.abs(value) > 0.5)).toBe(true);
    }
    cublas.close();
    device.close();
  });
});
