import type { Efficiency } from "./efficiency.ts";
import type { Hardware } from "./hardware.ts";

/**
 * The time of elementwise kernels: a launch, and the memory traffic. As much of it as half of the device's cache is read and
 * written there.
 */
export class ElementwiseTime {
  readonly #launchNs: number;
  readonly #bytesPerNs: number;
  readonly #cacheBytes: number;
  readonly #cached: number;

  constructor(hardware: Hardware, { elementwiseUs, memory, cached }: Efficiency) {
    this.#launchNs = 1e3 * elementwiseUs;
    this.#bytesPerNs = (hardware.memoryBytesPerS * memory) / 1e9;
    this.#cacheBytes = hardware.cacheBytes / 2;
    this.#cached = cached;
  }

  /** Nanoseconds of a kernel that reads and writes `bytes` in total. */
  ns(bytes: number): number {
    return this.#launchNs + this.trafficNs(bytes);
  }

  trafficNs(bytes: number): number {
    const inCache = Math.min(bytes, this.#cacheBytes);
    return (bytes - inCache * (1 - this.#cached)) / this.#bytesPerNs;
  }
}
