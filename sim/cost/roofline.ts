import type { Nanos } from "../../core/trace.ts";
import type { CostModel, StepLoad } from "./cost-model.ts";
import type { Hardware } from "./hardware.ts";
import { kvLayerBytes } from "./kv-bytes.ts";
import { expertLayers, type ModelShape } from "./model-shape.ts";

/** What share of a data sheet's figures an engine gets, and what it needs besides. The same for all models and devices. */
export interface Efficiency {
  /** Of memory bandwidth, reading weights: 0.6 to 0.95. */
  readonly weights: number;
  /** Of memory bandwidth, reading keys and values through block tables: 0.4 to 0.95. */
  readonly cache: number;
  /** Of matrix throughput: 0.4 to 0.9. */
  readonly matrices: number;
  /** Of matrix throughput, in attention over prompts: 0.2 to 0.7. */
  readonly attention: number;
  /** Of the links to the host and between devices: 0.5 to 0.95. */
  readonly links: number;
  /** From one step's end to the next one's beginning, in microseconds: scheduling, launching, taking tokens: 0 to 5,000. */
  readonly stepUs: number;
  /** The same for each sequence in it: block tables, sampling, text: 0 to 50. */
  readonly sequenceUs: number;
  /** For devices to meet, each time: 3 to 30. */
  readonly allReduceUs: number;
}

export const defaultEfficiency: Efficiency = {
  weights: 0.85,
  cache: 0.8,
  matrices: 0.75,
  attention: 0.5,
  links: 0.8,
  stepUs: 1000,
  sequenceUs: 10,
  allReduceUs: 10,
};

export interface RooflineOptions {
  readonly shape: ModelShape;
  readonly hardware: Hardware;
  readonly blockTokens: number;
  readonly tensorParallel?: number;
  /** Bytes of a stored number of keys and values; default: the model's. */
  readonly kvNumberBytes?: number;
  readonly efficiency?: Partial<Efficiency>;
}

/**
 * A step takes as long as its operators, each of which is limited by arithmetic or by memory (Williams et al., CACM
 * 2009), and what the engine needs around them. Operators: matrices of the layers, experts, attention of prompts,
 * attention of answers, logits, what is done to each number between them, sums over devices, copies and swaps.
 */
export class Roofline implements CostModel {
  readonly name = "roofline";
  readonly windowTokens: number | undefined;
  // All in nanoseconds, for one of what the name says.
  readonly #stepNs: number;
  readonly #sequenceNs: number;
  readonly #weightsNs: number;
  readonly #tokenNs: number;
  readonly #vectorNs: number;
  /** Distinct experts of a layer that so many tokens reach, if all are as likely; the last stands for all more. */
  readonly #touched: Float64Array;
  readonly #expertWeightsNs: number;
  readonly #expertTokenNs: number;
  readonly #pairNs: number;
  readonly #windowPairNs: number;
  readonly #contextNs: number;
  readonly #windowContextNs: number;
  readonly #decodeNs: number;
  readonly #decodeWindowNs: number;
  readonly #headNs: number;
  readonly #logitsNs: number;
  readonly #samplingNs: number;
  readonly #copyNs: number;
  readonly #swapNs: number;

  constructor({ shape, hardware, blockTokens, tensorParallel: tp = 1, ...rest }: RooflineOptions) {
    const efficiency = { ...defaultEfficiency, ...rest.efficiency };
    const numberBytes = shape.numberBytes;
    const { parameters, layers, hidden, vocabulary, heads } = shape;
    // Bytes and operations a nanosecond, of all devices together.
    const read = (tp * hardware.memoryBytesPerS * efficiency.weights) / 1e9;
    const compute = (tp * hardware.flops[shape.compute] * efficiency.matrices) / 1e9;
    const plainCompute = tp * hardware.flops[shape.numberBytes === 4 ? "fp32" : "bf16"];

    this.#stepNs = efficiency.stepUs * 1e3;
    this.#sequenceNs = efficiency.sequenceUs * 1e3;

    this.#weightsNs = (parameters.layers * shape.weightBytes) / read;
    this.#tokenNs = (2 * parameters.layers) / compute;

    const { experts } = shape;
    const sparse = expertLayers(shape);
    this.#touched = experts ? touchedExperts(experts.count, experts.active) : new Float64Array(1);
    this.#expertWeightsNs = (sparse * parameters.expert * shape.expertWeightBytes) / read;
    this.#expertTokenNs = (2 * sparse * (experts?.active ?? 0) * parameters.expert) / compute;

    const windowLayers = shape.window?.layers ?? 0;
    const fullLayers = layers - windowLayers;
    this.windowTokens = shape.window?.tokens;
    const attend = (plainCompute * efficiency.attention) / 1e9;
    const pair = (2 * heads * (shape.keyDim + shape.valueDim)) / attend;
    this.#pairNs = fullLayers * pair;
    this.#windowPairNs = windowLayers * pair;
    // Each device reads its own share of the cache, at its own speed.
    const kvNumber = rest.kvNumberBytes ?? numberBytes;
    const kvBytes = kvLayerBytes(shape, kvNumber, tp);
    const context = kvBytes / ((hardware.memoryBytesPerS * efficiency.cache) / 1e9);
    this.#contextNs = fullLayers * context;
    this.#windowContextNs = windowLayers * context;
    // An answer's token reads what is stored as it is (MLA: all heads from the same numbers).
    const { latentDim } = shape;
    const perKey = latentDim === undefined ? shape.keyDim + shape.valueDim : shape.kvNumbers + latentDim;
    const decode = Math.max(context, (2 * heads * perKey) / attend);
    this.#decodeNs = fullLayers * decode;
    this.#decodeWindowNs = windowLayers * decode;

    this.#headNs = (parameters.head * numberBytes) / read;
    this.#logitsNs = (2 * parameters.head) / ((plainCompute * efficiency.matrices) / 1e9);
    // Logits are written, widened to 32 bits, and read for the largest one.
    this.#samplingNs = (vocabulary * (2 * numberBytes + 2 * 4)) / read;

    const meetings = tp > 1 ? 2 * layers : 0;
    this.#stepNs += meetings * efficiency.allReduceUs * 1e3;
    const link = (hardware.linkBytesPerS * efficiency.links) / 1e9;
    const summed = tp > 1 ? (meetings * 2 * (tp - 1) * hidden * numberBytes) / tp / link : 0;
    this.#vectorNs = vectorBytes(shape) / read + summed;

    const stored = layers * kvBytes;
    this.#copyNs = (2 * blockTokens * stored) / ((hardware.memoryBytesPerS * efficiency.cache) / 1e9);
    this.#swapNs = stored / ((hardware.hostBytesPerS * efficiency.links) / 1e9);
  }

  stepNs(load: Readonly<StepLoad>): Nanos {
    const tokens = load.prefillTokens + load.decodeTokens;
    let ns =
      this.#stepNs +
      load.sequences * this.#sequenceNs +
      Math.max(this.#weightsNs, tokens * this.#tokenNs) +
      tokens * this.#vectorNs +
      Math.max(
        load.prefillPairs * this.#pairNs + load.prefillWindowPairs * this.#windowPairNs,
        load.prefillContextTokens * this.#contextNs + load.prefillWindowTokens * this.#windowContextNs,
      ) +
      load.decodeContextTokens * this.#decodeNs +
      load.decodeWindowTokens * this.#decodeWindowNs +
      load.copiedBlocks * this.#copyNs +
      load.swappedTokens * this.#swapNs;
    if (load.logits > 0) ns += Math.max(this.#headNs, load.logits * this.#logitsNs) + load.logits * this.#samplingNs;
    if (this.#expertWeightsNs > 0) {
      const touched = this.#touched[Math.min(tokens, this.#touched.length - 1)];
      ns += Math.max(touched * this.#expertWeightsNs, tokens * this.#expertTokenNs);
    }
    return Math.max(1, Math.round(ns));
  }
}

/** By tokens, up to where less than a thousandth of an expert is left. */
function touchedExperts(count: number, active: number): Float64Array {
  const touched: number[] = [];
  for (let left = count; left > 1e-3; left *= 1 - active / count) touched.push(count - left);
  touched.push(count);
  return Float64Array.from(touched);
}

/** Bytes that a token's vectors take on their way between the matrices: each is written and read again. */
function vectorBytes({ layers, denseLayers, hidden, heads, keyDim, kvNumbers, ffn, experts, numberBytes }: ModelShape) {
  // Two norms and two residual sums of the hidden vector; queries, keys and values, turned; gate, up and their product.
  const around = 8 * hidden + 4 * (heads * keyDim + kvNumbers);
  const inner = experts ? (experts.active + experts.shared) * experts.ffn : 0;
  return numberBytes * (layers * around + 6 * (denseLayers * ffn + (layers - denseLayers) * inner));
}
