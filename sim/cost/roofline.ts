import type { StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { CostModel } from "./cost-model.ts";
import type { Hardware } from "./hardware.ts";
import { kvLayerBytes } from "./kv-bytes.ts";
import { expertLayers, type ModelShape } from "./model-shape.ts";

/**
 * What an engine makes of a data sheet's figures. The same for all models and devices. Shares are above 0 and at most 1;
 * the ranges are those in which engines are found.
 */
export interface Efficiency {
  /** Share of memory bandwidth, reading weights, keys and values: 0.7 to 0.95. */
  readonly memory: number;
  /** Share of matrix throughput, in the matrices of the layers: 0.5 to 0.9. */
  readonly matrices: number;
  /** How much of the shorter one of arithmetic and memory traffic hides behind the longer one, in matrices: 0.2 to 0.9. */
  readonly overlap: number;
  /** Share of matrix throughput, in attention: 0.25 to 0.7. */
  readonly attention: number;
  /** Share of the bandwidth of links to the host and between devices: 0.5 to 0.95. */
  readonly links: number;
  /** Microseconds of a step in which the device waits for the engine: 0 to 5,000; little if it plans ahead. */
  readonly stepUs: number;
  /** Microseconds for devices to meet, twice a layer: 3 to 30. */
  readonly allReduceUs: number;
}

/**
 * `memory` and `matrices` are fitted to the first half of a recorded run of vLLM 0.19, given `overlap`, `attention` and
 * `stepUs`, which the run bears out but cannot tell apart from them (docs/fidelity.md). What is about links is usual.
 */
export const defaultEfficiency: Efficiency = {
  memory: 0.917,
  matrices: 0.753,
  overlap: 0.5,
  attention: 0.45,
  links: 0.8,
  stepUs: 1000,
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

/** Matrices are multiplied in tiles of so many tokens, or of fewer if all fit into a small one (cuBLAS, CUTLASS). */
const tileTokens = 128;
const smallTileTokens = 32;

/** Kernels of attention have tiles of so many rows, of one sequence's queries (FlashAttention-2 over block tables). */
const attentionRows = 64;

/**
 * A step takes as long as its operators one after the other, each of which is limited by arithmetic or by memory (the
 * roofline: Williams et al., CACM 2009), and what the engine needs around them. Operators: matrices of the layers, experts,
 * attention of prompts, attention of answers, logits, what is done to each token between these, sums over devices, copies
 * and swaps.
 *
 * In a step with prompts, answers go through the kernel that is made for many queries of a sequence: each has a tile of
 * its own with all but a few rows empty. That makes reading its keys and values as slow as computing with them.
 */
export class Roofline implements CostModel {
  readonly name = "roofline";
  readonly windowTokens: number | undefined;
  // All in nanoseconds, for one of what the name says.
  readonly #stepNs: number;
  readonly #weightsNs: number;
  readonly #tokenNs: number;
  readonly #vectorNs: number;
  /** Distinct experts of a layer that so many tokens reach, if all are as likely; the last stands for all more. */
  readonly #touched: Float64Array;
  readonly #expertWeightsNs: number;
  readonly #expertTokenNs: number;
  readonly #exposed: number;
  readonly #pairNs: number;
  readonly #windowPairNs: number;
  readonly #contextNs: number;
  readonly #windowContextNs: number;
  readonly #decodeNs: number;
  readonly #decodeWindowNs: number;
  readonly #mixedNs: number;
  readonly #mixedWindowNs: number;
  readonly #headNs: number;
  readonly #logitsNs: number;
  readonly #samplingNs: number;
  readonly #copyNs: number;
  readonly #swapNs: number;

  constructor({ shape, hardware, blockTokens, tensorParallel: devices = 1, ...rest }: RooflineOptions) {
    const efficiency = { ...defaultEfficiency, ...rest.efficiency };
    const { parameters, layers, hidden, vocabulary, heads, kvHeads, numberBytes, experts, latentDim } = shape;
    // Of one device, in bytes and operations a nanosecond. Each has an equal share of the matrices and heads.
    const memory = (hardware.memoryBytesPerS * efficiency.memory) / 1e9;
    const plain = hardware.flops[numberBytes === 4 ? "fp32" : "bf16"] / 1e9;
    const compute = (hardware.flops[shape.compute] / 1e9) * efficiency.matrices;
    const attend = plain * efficiency.attention;
    const link = (hardware.linkBytesPerS * efficiency.links) / 1e9;

    this.#exposed = 1 - efficiency.overlap;
    this.#weightsNs = (parameters.layers * shape.weightBytes) / devices / memory;
    this.#tokenNs = (2 * parameters.layers) / devices / compute;

    const sparse = expertLayers(shape);
    this.#touched = experts ? touchedExperts(experts.count, experts.active) : new Float64Array(1);
    this.#expertWeightsNs = (sparse * parameters.expert * shape.expertWeightBytes) / devices / memory;
    this.#expertTokenNs = (2 * sparse * (experts?.active ?? 0) * parameters.expert) / devices / compute;

    const windowLayers = shape.window?.layers ?? 0;
    const fullLayers = layers - windowLayers;
    this.windowTokens = shape.window?.tokens;
    const pair = (2 * heads * (shape.keyDim + shape.valueDim)) / devices / attend;
    this.#pairNs = fullLayers * pair;
    this.#windowPairNs = windowLayers * pair;
    const kvBytes = kvLayerBytes(shape, rest.kvNumberBytes ?? numberBytes, devices);
    const context = kvBytes / memory;
    this.#contextNs = fullLayers * context;
    this.#windowContextNs = windowLayers * context;
    // Answers read what is stored as it is. With MLA, all heads compute with the same numbers, always in their own kernel.
    const perKey = latentDim === undefined ? shape.keyDim + shape.valueDim : shape.kvNumbers + latentDim;
    const decode = Math.max(context, (2 * heads * perKey) / devices / attend);
    const rows = { head: attentionRows, group: (attentionRows * kvHeads) / heads, query: 1 }[hardware.attentionTile];
    const mixed = latentDim === undefined ? Math.max(decode, pair * rows) : decode;
    this.#decodeNs = fullLayers * decode;
    this.#decodeWindowNs = windowLayers * decode;
    this.#mixedNs = fullLayers * mixed;
    this.#mixedWindowNs = windowLayers * mixed;

    this.#headNs = (parameters.head * numberBytes) / devices / memory;
    this.#logitsNs = (2 * parameters.head) / devices / (plain * efficiency.matrices);
    // Logits are written, read and widened to 32 bits, and read again for the largest one.
    this.#samplingNs = (vocabulary * (2 * numberBytes + 2 * 4)) / devices / memory;

    const meetings = devices > 1 ? 2 * layers : 0;
    this.#stepNs = (efficiency.stepUs + meetings * efficiency.allReduceUs) * 1e3;
    // All hear from all: each sends and gets its share twice.
    const summed = (meetings * 2 * ((devices - 1) / devices) * hidden * numberBytes) / link;
    this.#vectorNs = vectorBytes(shape) / devices / memory + summed;

    this.#copyNs = (2 * blockTokens * layers * kvBytes) / memory;
    this.#swapNs = (layers * kvBytes) / ((hardware.hostBytesPerS * efficiency.links) / 1e9);
  }

  stepNs(load: Readonly<StepLoad>): Nanos {
    const { prefillTokens, decodeContextTokens, decodeWindowTokens, logits } = load;
    const tokens = prefillTokens + load.decodeTokens;
    let ns = this.#stepNs + load.copiedBlocks * this.#copyNs + load.swappedTokens * this.#swapNs;
    if (tokens > 0) {
      const rows = tokens <= smallTileTokens ? smallTileTokens : Math.ceil(tokens / tileTokens) * tileTokens;
      ns += this.#longer(this.#weightsNs, rows * this.#tokenNs) + tokens * this.#vectorNs;
      if (this.#expertWeightsNs > 0) {
        const touched = this.#touched[Math.min(tokens, this.#touched.length - 1)];
        ns += this.#longer(touched * this.#expertWeightsNs, tokens * this.#expertTokenNs);
      }
    }
    if (prefillTokens > 0) {
      const computeNs = load.prefillPairs * this.#pairNs + load.prefillWindowPairs * this.#windowPairNs;
      const readNs = load.prefillContextTokens * this.#contextNs + load.prefillWindowTokens * this.#windowContextNs;
      ns += Math.max(computeNs, readNs);
      ns += decodeContextTokens * this.#mixedNs + decodeWindowTokens * this.#mixedWindowNs;
    } else {
      ns += decodeContextTokens * this.#decodeNs + decodeWindowTokens * this.#decodeWindowNs;
    }
    if (logits > 0) ns += this.#longer(this.#headNs, logits * this.#logitsNs) + logits * this.#samplingNs;
    return Math.max(1, Math.round(ns));
  }

  /** Of two that run side by side, the longer one and what does not hide behind it of the other. */
  #longer(a: number, b: number): number {
    return a > b ? a + this.#exposed * b : b + this.#exposed * a;
  }
}

/** By tokens, up to where less than a thousandth of an expert is left. */
function touchedExperts(count: number, active: number): Float64Array {
  const touched: number[] = [];
  for (let left = count; left > 1e-3; left *= 1 - active / count) touched.push(count - left);
  touched.push(count);
  return Float64Array.from(touched);
}

/**
 * Bytes that a token moves between matrices, in kernels that are fused as usual: two norms, each with the residual sum
 * before it (four hidden vectors), the turn of queries and keys, storing keys and values, what attention takes and gives, and the
 * product of gate and up (three inner vectors).
 */
function vectorBytes(shape: ModelShape): number {
  const { layers, denseLayers, hidden, heads, keyDim, valueDim, kvNumbers, ffn, experts, numberBytes } = shape;
  const attention = 3 * heads * keyDim + heads * valueDim + 3 * kvNumbers;
  const inner = experts ? (experts.active + experts.shared) * experts.ffn : 0;
  const innerOfAll = denseLayers * ffn + (layers - denseLayers) * inner;
  return numberBytes * (layers * (8 * hidden + attention) + 3 * innerOfAll);
}
