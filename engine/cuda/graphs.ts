import { ExecutorError } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import type { CudaGraph, Device } from "./device.ts";
import type { StepSize } from "./step-inputs.ts";

/** Graphs that are kept; the least recently used one is discarded. */
const mostGraphs = 64;

/** Launches of a layer's decode, and an estimate of a node's memory on the device: parameters, launch and dependencies. */
const [layerLaunches, nodeBytes] = [10, 4096];

/** Bytes of all graphs of a model on the device, as an estimate. */
export const graphBytes = ({ layers }: DecoderConfig): number => mostGraphs * (layers + 1) * layerLaunches * nodeBytes;

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
  /** In the order of their last use; undefined: launched once without a graph; "plain": the capture failed. */
  readonly #graphs = new Map<string, CudaGraph | "plain" | undefined>();

  constructor(device: Device) {
    this.#device = device;
  }

  /**
   * Returns what launches `work`: `work` itself, or the graph that is captured from it, now at the latest. The first use of a key is
   * not captured, because the driver loads kernels, and cuBLAS chooses its own, at their first launch. If a capture fails, `work` is
   * launched without a graph.
   */
  prepare(key: string, work: () => void): () => void {
    const isKnown = this.#graphs.has(key);
    const graph = isKnown ? (this.#graphs.get(key) ?? this.#captured(work)) : undefined;
    this.#graphs.delete(key);
    this.#graphs.set(key, graph);
    if (this.#graphs.size > mostGraphs) {
      const [[oldest]] = this.#graphs;
      this.#discard(oldest);
    }
    return typeof graph === "object" ? () => graph.launch() : work;
  }

  /** Discards all graphs, because addresses in their launches have changed. */
  clear(): void {
    for (const key of [...this.#graphs.keys()]) this.#discard(key);
  }

  /** Number of captured graphs. */
  get count(): number {
    return [...this.#graphs.values()].filter((graph) => typeof graph === "object").length;
  }

  #captured(work: () => void): CudaGraph | "plain" {
    try {
      return this.#device.capture(work);
    } catch (error) {
      // Any other failure occurs again without a graph.
      if (error instanceof ExecutorError) return "plain";
      throw error;
    }
  }

  #discard(key: string): void {
    const graph = this.#graphs.get(key);
    this.#graphs.delete(key);
    if (typeof graph === "object") graph.free();
  }
}
