import { existsSync, readFileSync } from "node:fs";
import { UnavailableError } from "../executor.ts";
import type { Device } from "./device.ts";
import { CudaError } from "./driver.ts";
import { compile } from "./nvrtc.ts";

const folder = new URL("./kernels/", import.meta.url);

/** Machine code for the architectures that `npm run build:cuda` compiles for, and PTX for later ones. */
const fatbin = new URL("kernels.fatbin", folder);

/**
 * Loads the kernels: from the fatbin that the package contains, or compiled from their sources by NVRTC.
 *
 * @param headDim compiles the attention kernels of this head dimension only, which takes a fraction of the time
 * @returns the address of a kernel by its name
 * @throws UnavailableError of one line if neither is possible
 */
export function loadKernels(device: Device, headDim?: number): (name: string) => bigint {
  // The emulator has the kernels in its library.
  if (device.isEmulated) return device.loadModule(new Uint8Array(1));
  let reason = "the package has no compiled kernels (kernels.fatbin)";
  if (existsSync(fatbin)) {
    try {
      return device.loadModule(readFileSync(fatbin));
    } catch (error) {
      if (!(error instanceof CudaError)) throw error;
      // Compiled for another architecture, or by a compiler that is newer than the driver.
      reason = `the compiled kernels do not load on ${device.name}: ${error.message}`;
    }
  }
  const architecture = `sm_${device.capability}${device.capability === 90 ? "a" : ""}`;
  const macros = headDim === undefined ? [] : [`ONLY_HEAD_DIMENSION=${headDim}`];
  const image = compile(wholeSource("kernels.cu"), architecture, macros);
  if (image) return device.loadModule(image);
  throw new UnavailableError(`${reason}, and NVRTC, which compiles them, was not found: install the CUDA toolkit`);
}

/** A source with the files that it includes in their places; NVRTC is given one text. */
export function wholeSource(file: string, included = new Set<string>()): string {
  if (included.has(file)) return "";
  included.add(file);
  const text = readFileSync(new URL(file, folder), "utf8");
  return text.replace(/^#include "([^"]+)"$/gm, (_, name: string) => wholeSource(name, included));
}
