import type { EngineBackend } from "../backend.ts";
import { Cublas } from "./cublas.ts";
import { openCudaExecutor } from "./executor.ts";
import { availableBytes, checkFits, tokenBytes, totalBytes, weightBytes } from "./memory.ts";
import { probedDevice, reportedName } from "./probe.ts";
import { selfCheck } from "./self-check.ts";

/** The first CUDA device of this machine. */
export const cudaBackend = {
  name: "cuda",
  get reportName() {
    return reportedName();
  },
  device: "the GPU",
  deviceName: () => probedDevice().name,
  weightBits: [16],
  hasThreads: false,
  contentsTolerance: { keysAndValues: 0.1, logits: 0.1 },
  open: openCudaExecutor,
  memory: { weightBytes, tokenBytes, availableBytes, totalBytes, checkFits },
  runtime: { name: "CUDA", missing: { cuda: null }, load: loadRuntime },
  selfCheck,
} as const satisfies EngineBackend;

async function loadRuntime() {
  const device = probedDevice();
  const { name, driverVersion, capability } = device;
  const { totalBytes } = device.memory();
  const products = Cublas.find(device) ? "cuBLAS" : "no cuBLAS: products by a slower kernel";
  return {
    found: `${name}, ${(totalBytes / 2 ** 30).toFixed(0)} GiB; driver for CUDA ${driverVersion}; ${products}`,
    report: { cuda: { device: name, driverVersion, capability: capability / 10, memoryBytes: totalBytes } },
  };
}
