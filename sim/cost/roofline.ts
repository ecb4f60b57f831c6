import { decodeSequences, type StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { type AttentionLoad, AttentionTime } from "./attention-time.ts";
import { Collectives } from "./collectives.ts";
import type { DecodeRun } from "./cost-model.ts";
import { type Efficiency, efficiencyOf, typical } from "./efficiency.ts";
import { ElementwiseTime } from "./elementwise-time.ts";
import type { DividedCost } from "./expert-group.ts";
import { ExpertsTime } from "./experts-time.ts";
import type { Hardware } from "./hardware.ts";
import { kvTokenBytes } from "./kv-bytes.ts";
import { type LayerKernel, type LayerMatrix, layerKernels, layerMatrices } from "./layer-operators.ts";
import { MatrixTime } from "./matrix-time.ts";
import { expertLayers, type ModelShape } from "./model-shape.ts";
import { RooflineDecodes } from "./roofline-decodes.ts";
import { type Stage, wholeModel } from "./stages.ts";
import { touchedExperts } from "./touched-experts.ts";

export interface RooflineOptions {
  readonly shape: ModelShape;
  readonly hardware: Hardware;
  readonly blockTokens: number;
  readonly tensorParallel?: number;
  /** Replicas that share the routed experts. */
  readonly dataParallel?: number;
  /** Bytes of a stored number of keys and values; default: the model's. */
  readonly kvNumberBytes?: number;
  /** The part of the model that `shape` is, with pipeline parallelism; absent: the whole. */
  readonly stage?: Stage | undefined;
  /** Replaces rates of the device. */
  readonly efficiency?: Partial<Efficiency>;
}

/**
 * The duration of a step is the sum of its operators, each limited by arithmetic or by memory traffic (the roofline: Williams et
 * al., CACM 2009) at the rates that the device achieves (`Efficiency`). Operators: matrices of the layers, experts, attention,
 * elementwise kernels, logits, sampling, collectives, block copies and swaps.
 */
export class Roofline implements DividedCost {
  readonly name = "roofline";
  readonly windowTokens: number | undefined;
  readonly #options: RooflineOptions & { readonly tensorParallel: number };
  readonly #efficiency: Efficiency;
  readonly #matrices: readonly LayerMatrix[];
  readonly #kernels: readonly LayerKernel[];
  readonly #matrix: MatrixTime;
  readonly #experts: ExpertsTime | undefined;
  readonly #elementwise: ElementwiseTime;
  readonly #attention: AttentionTime;
  readonly #collectives: Collectives;
  readonly #expertLayers: number;
  readonly #fullLayers: number;
  readonly #windowLayers: number;
  /**
   * Expected number of distinct experts per layer by number of tokens, with uniform routing; the last element applies to all
   * larger numbers.
   */
  readonly #touched: Float64Array;
  /** Time of the operators that depend on the tokens of a step only, and of those per output token, as far as tables reach. */
  readonly #dense: Float64Array;
  readonly #logits: Float64Array;
  readonly #copyNs: number;
  readonly #swapNs: number;
  readonly #load: AttentionLoad;
  readonly #decodes: RooflineDecodes;

  constructor(options: RooflineOptions) {
    const { shape, hardware, blockTokens, tensorParallel = 1, dataParallel = 1 } = options;
    const { kvNumberBytes = shape.numberBytes } = options;
    const efficiency = { ...efficiencyOf(hardware), ...options.efficiency };
    this.#options = { ...options, tensorParallel };
    this.#efficiency = efficiency;
    this.#matrices = layerMatrices(shape, tensorParallel);
    this.#kernels = layerKernels(shape, tensorParallel);
    this.#matrix = new MatrixTime(hardware, efficiency, shape.compute);
    this.#experts = shape.experts && new ExpertsTime(shape, hardware, efficiency, tensorParallel * dataParallel);
    this.#elementwise = new ElementwiseTime(hardware, efficiency);
    this.#attention = new AttentionTime(shape, hardware, efficiency, tensorParallel, kvNumberBytes);
    this.#collectives = collectivesOf(hardware, tensorParallel, efficiency);
    this.#expertLayers = expertLayers(shape);
    this.#windowLayers = shape.window?.layers ?? 0;
    this.#fullLayers = shape.layers - this.#windowLayers;
    this.windowTokens = shape.window?.tokens;
    this.#touched = shape.experts ? touchedExperts(shape.experts.count, shape.experts.active) : new Float64Array(1);
    this.#dense = Float64Array.from({ length: 4097 }, (_, tokens) => (tokens === 0 ? 0 : this.#denseNs(tokens)));
    this.#logits = Float64Array.from({ length: 1025 }, (_, logits) => (logits === 0 ? 0 : this.#logitsNs(logits)));
    const kvBytes = kvTokenBytes(shape, kvNumberBytes, tensorParallel);
    this.#copyNs = (2 * blockTokens * kvBytes) / ((hardware.memoryBytesPerS * efficiency.memory) / 1e9);
    this.#swapNs = kvBytes / ((hardware.hostBytesPerS * efficiency.links) / 1e9);
    const { decodeTokenNs } = this.#attention;
    this.#decodes = new RooflineDecodes(this.#fullLayers, shape.window, efficiency.skew, decodeTokenNs);
    this.#load = {
      ...{ prefillSequences: 0, prefillTokens: 0, prefillPairs: 0, prefillContextTokens: 0 },
      ...{ decodeTokens: 0, decodeContextTokens: 0 },
    };
  }

  stepNs(load: Readonly<StepLoad>): Nanos {
    const ns = this.withoutExpertsNs(load, 0) + this.expertsNs(load.prefillTokens + load.decodeTokens);
    return Math.max(1, Math.round(ns));
  }

  decodeEnds(run: DecodeRun): number {
    const { load } = run;
    const { decodeTokens, logits } = load;
    const steps = this.#decodes;
    steps.decodes = decodeSequences(load);
    steps.startNs = this.#attention.decodeStartNs(steps.decodes);
    steps.denseNs = 1e3 * this.#efficiency.stepUs + this.#denseOf(decodeTokens);
    steps.logitsNs = this.#logitsOf(logits);
    steps.expertsNs = this.expertsNs(decodeTokens);
    return steps.ends(run);
  }

  expertsNs(tokens: number): number {
    if (tokens === 0 || this.#experts === undefined) return 0;
    const touched = this.#touched[Math.min(tokens, this.#touched.length - 1)];
    return this.#expertLayers * this.#experts.ns(tokens, touched);
  }

  withoutExpertsNs(load: Readonly<StepLoad>, paddedTokens: number): number {
    const tokens = Math.max(load.prefillTokens + load.decodeTokens, paddedTokens);
    const ns = 1e3 * this.#efficiency.stepUs + load.copiedBlocks * this.#copyNs + load.swappedTokens * this.#swapNs;
    return ns + this.#denseOf(tokens) + this.#allAttentionNs(load) + this.#logitsOf(load.logits);
  }

  #denseOf(tokens: number): number {
    return tokens < this.#dense.length ? this.#dense[tokens] : this.#denseNs(tokens);
  }

  #logitsOf(logits: number): number {
    return logits < this.#logits.length ? this.#logits[logits] : this.#logitsNs(logits);
  }

  #allAttentionNs(from: Readonly<StepLoad>): number {
    const load = this.#load;
    load.prefillSequences = from.prefillSequences;
    load.prefillTokens = from.prefillTokens;
    load.prefillPairs = from.prefillPairs;
    load.prefillContextTokens = from.prefillContextTokens;
    load.decodeTokens = decodeSequences(from);
    load.decodeContextTokens = from.decodeContextTokens;
    const { longestDecodeTokens: longest } = from;
    let ns = this.#fullLayers > 0 ? this.#fullLayers * this.#attentionNs(load, longest) : 0;
    if (this.#windowLayers > 0) {
      load.prefillPairs = from.prefillWindowPairs;
      load.prefillContextTokens = from.prefillWindowTokens;
      load.decodeContextTokens = from.decodeWindowTokens;
      ns += this.#windowLayers * this.#attentionNs(load, Math.min(longest, this.windowTokens!));
    }
    return ns;
  }

  /** The matrices and elementwise kernels of a step, and all-reduces. */
  #denseNs(tokens: number): number {
    const { shape, stage = wholeModel } = this.#options;
    const { layers, hidden, numberBytes, weightBytes } = shape;
    let ns = 0;
    for (const matrix of this.#matrices) ns += matrix.layers * this.#matrix.ns(tokens, matrix, weightBytes);
    for (const kernel of this.#kernels)
      ns += kernel.layers * this.#elementwise.ns(tokens * kernel.numbers * numberBytes);
    // After the embedding, attention and the feed-forward network.
    return ns + ((stage.isFirst ? 1 : 0) + 2 * layers) * this.#collectives.allReduceNs(tokens * hidden * numberBytes);
  }

  /** Logits and sampling: logits are gathered from all devices, written in 32 bits and read once. */
  #logitsNs(logits: number): number {
    const { shape, tensorParallel: devices, stage = wholeModel } = this.#options;
    if (!stage.isLast) return 0;
    const head = { outputs: shape.vocabulary / devices, inputs: shape.hidden };
    return (
      this.#matrix.ns(logits, head, shape.numberBytes) +
      this.#collectives.allGatherNs((logits * shape.vocabulary * shape.numberBytes) / devices) +
      1e3 * this.#efficiency.samplerUs +
      this.#elementwise.trafficNs(logits * shape.vocabulary * 8)
    );
  }

  /** Attention of one layer, in which decodes read `load.decodeContextTokens` in total and at most `longest` each. */
  #attentionNs(load: AttentionLoad, longest: number): number {
    const ns = this.#attention.ns(load);
    const evenly = load.decodeContextTokens;
    if (longest * load.decodeTokens <= evenly) return ns;
    load.decodeContextTokens = longest * load.decodeTokens;
    const longestNs = this.#attention.ns(load);
    load.decodeContextTokens = evenly;
    return ns + this.#efficiency.skew * (longestNs - ns);
  }
}

/** Measured, unless a factor of collectives is set. */
function collectivesOf(hardware: Hardware, devices: number, { links, allReduceUs }: Efficiency): Collectives {
  const isSet = links !== typical.links || allReduceUs !== typical.allReduceUs;
  return new Collectives(hardware, devices, isSet ? { share: links, latencyNs: 1e3 * allReduceUs } : undefined);
}
