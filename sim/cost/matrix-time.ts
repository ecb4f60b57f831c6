import type { Efficiency } from "./efficiency.ts";
import type { Hardware } from "./hardware.ts";
import type { ComputeType } from "./model-shape.ts";

/** A matrix of weights: `outputs` rows of `inputs` numbers. */
export interface Matrix {
  readonly outputs: number;
  readonly inputs: number;
}

/** Tokens and outputs of a tile of a matrix product: a kernel is chosen by the time that it takes (cuBLAS, CUTLASS). */
const tiles = [
  [16, 64],
  [32, 64],
  [64, 64],
  [128, 128],
] as const;

/**
 * The time of a matrix product, which has two parts that overlap: reading the weights, and computing tiles of the result. A
 * tile is computed by one unit of the device (streaming multiprocessor), so that time grows by waves of as many tiles as there
 * are units.
 */
export class MatrixTime {
  readonly #units: number;
  readonly #bytesPerNs: number;
  readonly #tileFlopsPerNs: number;
  readonly #exposed: number;
  readonly #launchNs: number;
  readonly #waveNs: number;

  constructor(hardware: Hardware, efficiency: Efficiency, compute: ComputeType) {
    this.#units = hardware.units;
    this.#bytesPerNs = (hardware.memoryBytesPerS * efficiency.memory) / 1e9;
    this.#tileFlopsPerNs = (hardware.flops[compute] * efficiency.matrices) / hardware.units / 1e9;
    this.#exposed = 1 - efficiency.overlap;
    this.#launchNs = 1e3 * efficiency.matrixUs;
    this.#waveNs = 1e3 * efficiency.waveUs;
  }

  /** Nanoseconds of the product of `tokens` vectors with a matrix whose weights have `weightBytes` bytes each. */
  ns(tokens: number, { outputs, inputs }: Matrix, weightBytes: number): number {
    let computeNs = Number.POSITIVE_INFINITY;
    for (const [rows, columns] of tiles) {
      const waves = Math.ceil((Math.ceil(tokens / rows) * Math.ceil(outputs / columns)) / this.#units);
      computeNs = Math.min(computeNs, waves * (this.#waveNs + (2 * rows * columns * inputs) / this.#tileFlopsPerNs));
    }
    return this.#launchNs + this.#overlapped(computeNs, (outputs * inputs * weightBytes) / this.#bytesPerNs);
  }

  /** Duration of two overlapping activities: the longer one, plus the exposed share of the shorter one. */
  #overlapped(a: number, b: number): number {
    return a > b ? a + this.#exposed * b : b + this.#exposed * a;
  }
}
