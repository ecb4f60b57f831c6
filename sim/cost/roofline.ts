import type { StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { Collectives } from "./collectives.ts";
import type { DividedCost } from "./expert-group.ts";
import type { Hardware } from "./hardware.ts";
import { kvLayerBytes } from "./kv-bytes.ts";
import { expertLayers, type ModelShape } from "./model-shape.ts";
import { touchedExperts } from "./touched-experts.ts";

/**
 * The shares of a data sheet's rates that an engine reaches, the same for all models and devices. Shares are above 0 and at most
 * 1; the ranges are those of real engines.
 */
export interface Efficiency {
  /** Share of memory bandwidth, reading weights and KV: 0.7 to 0.95. */
  readonly memory: number;
  /** Share of matrix throughput in the layers' matrices: 0.5 to 0.9. */
  readonly matrices: number;
  /**
   * In matrix products: fraction of the shorter of compute time and memory time that is hidden behind the longer: 0.2 to 0.9.
   */
  readonly overlap: number;
  /** Share of matrix throughput in attention: 0.25 to 0.7. */
  readonly attention: number;
  /** Share of the bandwidth of links to the host and between devices: 0.5 to 0.95. */
  readonly links: number;
  /** Microseconds per step in which the device waits for the engine: 0 to 5,000; few with asynchronous scheduling. */
  readonly stepUs: number;
  /**
   * Latency of an all-reduce in microseconds, two per layer: 3 to 30. With another value than the default of this factor or of
   * `links`, collectives are computed from the two, else from measurements of the device's links if there are any.
   */
  readonly allReduceUs: number;
}

/**
 * `memory` and `matrices` are fitted to the first half of a recorded run of vLLM 0.19, given `overlap`, `attention` and
 * `stepUs`: the run agrees with these values but cannot identify all five (docs/fidelity.md). `links` and `allReduceUs` are
 * typical values, for links without measurements.
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
  /** Replicas that share the routed experts. */
  readonly dataParallel?: number;
  /** Bytes of a stored number of keys and values; default: the model's. */
  readonly kvNumberBytes?: number;
  readonly efficiency?: Partial<Efficiency>;
}

/** Tokens per tile of a matrix product, and of the small tile for fewer tokens (cuBLAS, CUTLASS). */
const tileTokens = 128;
const smallTileTokens = 32;

/** Rows of a tile of attention kernels, all of one sequence's queries (FlashAttention-2 over block tables). */
const attentionRows = 64;

/**
 * The duration of a step is the sum of its operators, each limited by arithmetic or by memory traffic (the roofline: Williams et
 * al., CACM 2009), plus the engine's overhead. Operators: matrices of the layers, experts, prefill attention, decode attention,
 * logits, elementwise kernels per token, collectives, block copies and swaps.
 *
 * In a step with prefill, decodes run in the attention kernel for many queries per sequence: each of them occupies a tile whose
 * rows are nearly all empty, so that the tile's arithmetic is as slow as reading the KV.
 */
export class Roofline implements DividedCost {
  readonly name = "roofline";
  readonly windowTokens: number | undefined;
  // All in nanoseconds per the unit that the name begins with (token, pair, …).
  readonly #stepNs: number;
  readonly #weightsNs: number;
  readonly #tokenNs: number;
  readonly #vectorNs: number;
  readonly #collectives: Collectives;
  readonly #layers: number;
  /** Bytes of a token's hidden state, and of a sequence's logits on one device. */
  readonly #hiddenBytes: number;
  readonly #logitsBytes: number;
  /**
   * Expected number of distinct experts per layer by number of tokens, with uniform routing; the last element applies to all
   * larger numbers.
   */
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
    // Of one device, in bytes and operations per nanosecond. Each device has an equal share of the matrices and heads.
    const memory = (hardware.memoryBytesPerS * efficiency.memory) / 1e9;
    const plain = hardware.flops[numberBytes === 4 ? "fp32" : "bf16"] / 1e9;
    const compute = (hardware.flops[shape.compute] / 1e9) * efficiency.matrices;
    const attend = plain * efficiency.attention;

    this.#exposed = 1 - efficiency.overlap;
    this.#weightsNs = (parameters.layers * shape.weightBytes) / devices / memory;
    this.#tokenNs = (2 * parameters.layers) / devices / compute;

    const sparse = expertLayers(shape);
    this.#touched = experts ? touchedExperts(experts.count, experts.active) : new Float64Array(1);
    const sharing = devices * (rest.dataParallel ?? 1);
    this.#expertWeightsNs = (sparse * parameters.expert * shape.expertWeightBytes) / sharing / memory;
    this.#expertTokenNs = (2 * sparse * (experts?.active ?? 0) * parameters.expert) / sharing / compute;

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
    // With MLA, decodes compute on the latent vector itself, which all heads share, always in a kernel of their own.
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
    // Logits are written, converted to 32 bits, and read again for the argmax.
    this.#samplingNs = (vocabulary * (2 * numberBytes + 2 * 4)) / devices / memory;

    this.#stepNs = efficiency.stepUs * 1e3;
    this.#vectorNs = vectorBytes(shape) / devices / memory;
    this.#collectives = collectivesOf(hardware, devices, efficiency);
    this.#layers = layers;
    this.#hiddenBytes = hidden * numberBytes;
    this.#logitsBytes = (vocabulary / devices) * numberBytes;

    this.#copyNs = (2 * blockTokens * layers * kvBytes) / memory;
    this.#swapNs = (layers * kvBytes) / ((hardware.hostBytesPerS * efficiency.links) / 1e9);
  }

  stepNs(load: Readonly<StepLoad>): Nanos {
    const ns = this.withoutExpertsNs(load, 0) + this.expertsNs(load.prefillTokens + load.decodeTokens);
    return Math.max(1, Math.round(ns));
  }

  expertsNs(tokens: number): number {
    if (tokens === 0 || this.#expertWeightsNs === 0) return 0;
    const touched = this.#touched[Math.min(tokens, this.#touched.length - 1)];
    return this.#overlapped(touched * this.#expertWeightsNs, tokens * this.#expertTokenNs);
  }

  withoutExpertsNs(load: Readonly<StepLoad>, paddedTokens: number): number {
    const { prefillTokens, decodeContextTokens, decodeWindowTokens, logits } = load;
    const tokens = Math.max(prefillTokens + load.decodeTokens, paddedTokens);
    let ns = this.#stepNs + load.copiedBlocks * this.#copyNs + load.swappedTokens * this.#swapNs;
    if (tokens > 0) {
      const rows = tokens <= smallTileTokens ? smallTileTokens : Math.ceil(tokens / tileTokens) * tileTokens;
      ns += this.#overlapped(this.#weightsNs, rows * this.#tokenNs) + tokens * this.#vectorNs;
    }
    if (prefillTokens > 0) {
      const computeNs = load.prefillPairs * this.#pairNs + load.prefillWindowPairs * this.#windowPairNs;
      const readNs = load.prefillContextTokens * this.#contextNs + load.prefillWindowTokens * this.#windowContextNs;
      ns += Math.max(computeNs, readNs);
      ns += decodeContextTokens * this.#mixedNs + decodeWindowTokens * this.#mixedWindowNs;
    } else {
      ns += decodeContextTokens * this.#decodeNs + decodeWindowTokens * this.#decodeWindowNs;
    }
    if (logits > 0) {
      ns += this.#overlapped(this.#headNs, logits * this.#logitsNs) + logits * this.#samplingNs;
      ns += this.#collectives.allGatherNs(logits * this.#logitsBytes);
    }
    // After the embedding, attention and the feed-forward network.
    return ns + (1 + 2 * this.#layers) * this.#collectives.allReduceNs(tokens * this.#hiddenBytes);
  }

  /** Duration of two overlapping activities: the longer one, plus the exposed share of the shorter one. */
  #overlapped(a: number, b: number): number {
    return a > b ? a + this.#exposed * b : b + this.#exposed * a;
  }
}

/** Measured, unless a factor of collectives is set. */
export function collectivesOf(hardware: Hardware, devices: number, { links, allReduceUs }: Efficiency): Collectives {
  const isSet = links !== defaultEfficiency.links || allReduceUs !== defaultEfficiency.allReduceUs;
  return new Collectives(hardware, devices, isSet ? { share: links, latencyNs: 1e3 * allReduceUs } : undefined);
}

/**
 * Bytes per token of the elementwise kernels, fused as in common engines: two norms with their residual sums (four hidden vectors
 * each), rotary embedding, storing KV, inputs and outputs of attention, and the product of gate and up (three inner vectors).
 */
function vectorBytes(shape: ModelShape): number {
  const { layers, denseLayers, hidden, heads, keyDim, valueDim, kvNumbers, ffn, experts, numberBytes } = shape;
  const attention = 3 * heads * keyDim + heads * valueDim + 3 * kvNumbers;
  const inner = experts ? (experts.active + experts.shared) * experts.ffn : 0;
  const innerOfAll = denseLayers * ffn + (layers - denseLayers) * inner;
  return numberBytes * (layers * (8 * hidden + attention) + 3 * innerOfAll);
}
