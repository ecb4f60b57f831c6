import type { Efficiency } from "./efficiency.ts";
import type { Hardware } from "./hardware.ts";
import type { ModelShape } from "./model-shape.ts";

/**
 * The time of one layer's routed experts: the weights of the experts that any token uses are read while their products are
 * computed; routing, permutation and launches take a fixed time.
 */
export class ExpertsTime {
  readonly #fixedNs: number;
  readonly #exposed: number;
  /** Nanoseconds to read an expert, and to compute a token. */
  readonly #readNs: number;
  readonly #tokenNs: number;

  constructor(shape: ModelShape, hardware: Hardware, efficiency: Efficiency, devices: number) {
    const { parameters, expertWeightBytes, experts, compute } = shape;
    const { memory, matrices, experts: share, expertsUs, overlap } = efficiency;
    const bytes = (parameters.expert * expertWeightBytes) / devices;
    const operations = (2 * (experts?.active ?? 0) * parameters.expert) / devices;
    this.#fixedNs = 1e3 * expertsUs;
    this.#exposed = 1 - overlap;
    this.#readNs = bytes / ((hardware.memoryBytesPerS * memory) / 1e9);
    this.#tokenNs = operations / ((hardware.flops[compute] * matrices * share) / 1e9);
  }

  /** `touched`: distinct experts that the tokens use. */
  ns(tokens: number, touched: number): number {
    const [read, compute] = [touched * this.#readNs, tokens * this.#tokenNs];
    return this.#fixedNs + Math.max(read, compute) + this.#exposed * Math.min(read, compute);
  }
}
