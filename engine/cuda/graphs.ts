import type { CudaGraph, Device } from "./device.ts";
import type { StepSize } from "./step-inputs.ts";

/** Graphs that are kept; the least recently used one is discarded. */
const mostGraphs = 64;

/** Largest batch that is padded; a larger one is not launch-bound. */
const mostSequences = 512;

/**
 * The size to which a step of decodes is padded, so that few sizes occur; undefined if the step is not one: if a sequence has several
 * tokens or no logits.
 */
export function paddedDecodes(size: StepSize): StepSize | undefined {
  const { sequences, decodes, logits } = size;
  if (decodes !== sequences || logits !== sequences || sequences > mostSequences) return undefined;
  const padded = paddedBatch(sequences);
  const tableStride = 2 ** Math.ceil(Math.log2(size.tableStride));
  return { ...size, tokens: padded, sequences: padded, decodes: padded, logits: padded, tableStride };
}

/** 1, 2, 4, 8, then steps of 8, from 64 on of 16, from 256 on of 32. */
function paddedBatch(sequences: number): number {
  if (sequences <= 8) return 2 ** Math.ceil(Math.log2(sequences));
  const step = sequences <= 64 ? 8 : sequences <= 256 ? 16 : 32;
  return Math.ceil(sequences / step) * step;
}

/** CUDA graphs of steps, by a key that determines all parameters of their launches. */
export class Graphs {
  readonly #device: Device;
  /** In the order of their last use; undefined: launched once without a graph. */
  readonly #graphs = new Map<string, CudaGraph | undefined>();

  constructor(device: Device) {
    this.#device = device;
  }

  /**
   * Runs `work`, or the graph that was captured from it. The first run of a key is not captured, because the driver loads kernels,
   * and cuBLAS chooses its own, at their first launch.
   */
  run(key: string, work: () => void): void {
    const graph = this.#graphs.get(key);
    const isKnown = this.#graphs.delete(key);
    if (!isKnown) {
      work();
      this.#keep(key, undefined);
      return;
    }
    const captured = graph ?? this.#device.capture(work);
    captured.launch();
    this.#keep(key, captured);
  }

  /** Discards all graphs, because addresses in their launches have changed. */
  clear(): void {
    for (const graph of this.#graphs.values()) graph?.free();
    this.#graphs.clear();
  }

  /** Number of captured graphs. */
  get count(): number {
    return [...this.#graphs.values()].filter((graph) => graph !== undefined).length;
  }

  #keep(key: string, graph: CudaGraph | undefined): void {
    this.#graphs.set(key, graph);
    if (this.#graphs.size <= mostGraphs) return;
    const [[oldest, discarded]] = this.#graphs;
    this.#graphs.delete(oldest);
    discarded?.free();
  }
}
