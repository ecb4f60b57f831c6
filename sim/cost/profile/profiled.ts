import { decodeSequences, type StepLoad } from "../../../core/serving/step-load.ts";
import type { Nanos } from "../../../core/trace/trace.ts";
import { Collectives } from "../collectives.ts";
import type { DecodeRun } from "../cost-model.ts";
import { efficiencyOf } from "../efficiency.ts";
import type { DividedCost } from "../expert-group.ts";
import type { Hardware } from "../hardware.ts";
import { kvTokenBytes } from "../kv-bytes.ts";
import { expertLayers, type ModelShape } from "../model-shape.ts";
import { type Stage, wholeModel } from "../stages.ts";
import { touchedExperts } from "../touched-experts.ts";
import { type ExpertTimes, layerCalls, type OperatorProfile, stepCalls } from "./profile.ts";
import { ProfiledDecodes } from "./profiled-decodes.ts";

export interface ProfiledOptions {
  readonly profile: OperatorProfile;
  readonly shape: ModelShape;
  readonly hardware: Hardware;
  readonly blockTokens: number;
  /** The degree of tensor parallelism that the profile was measured at. */
  readonly tensorParallel?: number;
  /** The part of the model that `shape` is, with pipeline parallelism; absent: the whole. */
  readonly stage?: Stage | undefined;
  /** Devices that each compute a share of the routed experts. */
  readonly expertDevices?: number;
}

/** Batch sizes of vLLM's CUDA graphs: decodes are padded to the next one. */
const graphTokens = [1, 2, 4, ...range(8, 256, 8), ...range(256, 512, 16), 512];

function range(from: number, to: number, by: number): number[] {
  return Array.from({ length: (to - from) / by }, (_, i) => from + i * by);
}

/**
 * The duration of a step is the sum of its operators' measured times: the dense layers by the tokens of the step, attention by
 * chunk, cached tokens, decodes and their mean context, experts by tokens and expected number of activated experts, logits and
 * sampling by sequences, and collectives. Nothing is fitted to a run.
 *
 * Several chunks in one step count as one chunk with as many tokens and as many query-key pairs.
 */
export class Profiled implements DividedCost {
  readonly name = "profile";
  readonly #profile: OperatorProfile;
  readonly #options: ProfiledOptions;
  readonly #layers: number;
  readonly #sparse: number;
  readonly #expertDevices: number;
  /** Time of the operators by tokens of the step, and by sequences, as far as these tables reach. */
  readonly #dense: Float64Array;
  readonly #perSequence: Float64Array;
  /** As in `touchedExperts`. */
  readonly #touched: Float64Array;
  readonly #collectives: Collectives;
  /** Bytes of a sequence's logits on one device. */
  readonly #logitsBytes: number;
  readonly #copyNs: number;
  readonly #swapNs: number;
  readonly #decodes: ProfiledDecodes;

  constructor(options: ProfiledOptions) {
    const { profile, shape, hardware, blockTokens, tensorParallel = 1 } = options;
    this.#options = options;
    this.#profile = profile;
    this.#layers = shape.layers;
    this.#decodes = new ProfiledDecodes(profile.attention, profile.skew, shape.layers);
    this.#collectives = new Collectives(hardware, tensorParallel);
    this.#logitsBytes = (shape.vocabulary / tensorParallel) * shape.numberBytes;
    this.#sparse = expertLayers(shape);
    this.#expertDevices = options.expertDevices ?? 1;
    this.#touched = shape.experts ? touchedExperts(shape.experts.count, shape.experts.active) : new Float64Array(1);
    this.#dense = Float64Array.from({ length: 4097 }, (_, tokens) => (tokens === 0 ? 0 : this.#denseNs(tokens)));
    this.#perSequence = Float64Array.from({ length: 1025 }, (_, sequences) => this.#perSequenceNs(sequences));
    const kvBytes = kvTokenBytes(shape, shape.numberBytes, tensorParallel);
    const { memory, links } = efficiencyOf(hardware);
    this.#copyNs = (2 * blockTokens * kvBytes) / ((hardware.memoryBytesPerS * memory) / 1e9);
    this.#swapNs = kvBytes / ((hardware.hostBytesPerS * links) / 1e9);
  }

  #denseNs(tokens: number): number {
    const { shape, stage = wholeModel } = this.#options;
    const { hidden, numberBytes } = shape;
    const { dense, padded: isPadded = true } = this.#profile;
    const padded = (isPadded ? graphTokens.find((size) => size >= tokens) : undefined) ?? tokens;
    const allReduceNs = this.#collectives.allReduceNs(padded * hidden * numberBytes);
    // One after attention, one after the feed-forward network.
    let layer = 2 * allReduceNs;
    for (const [name, calls] of Object.entries(layerCalls)) layer += calls * (dense.get(name)?.at(padded) ?? 0);
    // And one after the embedding.
    let ns = (stage.isFirst ? allReduceNs : 0) + this.#layers * layer;
    for (const [name, has] of stepCalls) if (stage[has]) ns += dense.get(name)?.at(padded) ?? 0;
    return ns;
  }

  #perSequenceNs(sequences: number): number {
    if (sequences === 0 || !(this.#options.stage ?? wholeModel).isLast) return 0;
    let ns = this.#collectives.allGatherNs(sequences * this.#logitsBytes);
    for (const curve of this.#profile.perSequence.values()) ns += curve.at(sequences);
    return ns;
  }

  stepNs(load: Readonly<StepLoad>): Nanos {
    const ns = this.withoutExpertsNs(load, 0) + this.expertsNs(load.prefillTokens + load.decodeTokens);
    return Math.max(1, Math.round(ns));
  }

  decodeEnds(run: DecodeRun): number {
    const { load } = run;
    const steps = this.#decodes;
    steps.decodes = decodeSequences(load);
    steps.denseNs = this.#denseOf(load.decodeTokens);
    steps.perSequenceNs = this.#perSequenceOf(load.sequences);
    steps.expertsNs = this.expertsNs(load.decodeTokens);
    return steps.ends(run);
  }

  /**
   * A device that has 1/n of the experts computes 1/n of the pairs of token and expert, for 1/n of the activated experts: as many
   * as 1/n of the tokens have on one device.
   */
  expertsNs(tokens: number): number {
    const { experts } = this.#profile;
    if (experts === undefined || tokens === 0) return 0;
    const touched = this.#touched[Math.min(tokens, this.#touched.length - 1)];
    return this.#sparse * expertsNs(experts, tokens / this.#expertDevices, touched / this.#expertDevices);
  }

  withoutExpertsNs(load: Readonly<StepLoad>, paddedTokens: number): number {
    const tokens = Math.max(load.prefillTokens + load.decodeTokens, paddedTokens);
    let ns = load.copiedBlocks * this.#copyNs + load.swappedTokens * this.#swapNs;
    if (tokens > 0) ns = ns + this.#denseOf(tokens) + this.#layers * this.#attentionNs(load);
    return ns + this.#perSequenceOf(load.sequences);
  }

  #denseOf(tokens: number): number {
    return tokens < this.#dense.length ? this.#dense[tokens] : this.#denseNs(tokens);
  }

  #perSequenceOf(sequences: number): number {
    return sequences < this.#perSequence.length ? this.#perSequence[sequences] : this.#perSequenceNs(sequences);
  }

  #attentionNs(load: Readonly<StepLoad>): number {
    const { prefillTokens, prefillPairs, decodeContextTokens, longestDecodeTokens } = load;
    const decodes = decodeSequences(load);
    const { attention, skew } = this.#profile;
    const context = decodes === 0 ? 0 : decodeContextTokens / decodes;
    let chunk = prefillTokens;
    let cached = 0;
    if (chunk > 0) {
      cached = prefillPairs / chunk - (chunk + 1) / 2;
      if (cached < 0) {
        // Several short prompts: fewer pairs than one chunk of all tokens has.
        chunk = (Math.sqrt(1 + 8 * prefillPairs) - 1) / 2;
        cached = 0;
      }
    }
    const ns = attention.at(chunk, cached, decodes, context);
    if (skew === 0 || longestDecodeTokens <= context) return ns;
    return ns + skew * Math.max(0, attention.at(chunk, cached, decodes, longestDecodeTokens, 1) - ns);
  }
}

/**
 * Time of the experts of one layer, between the two nearest numbers of activated experts that were measured; of fewer than the
 * smallest one, their share.
 */
function expertsNs({ activated, byTokens }: ExpertTimes, tokens: number, touched: number): number {
  if (touched < activated[0]) return (byTokens[0].at(tokens) * touched) / activated[0];
  let i = 0;
  while (i < activated.length - 2 && activated[i + 1] <= touched) i++;
  const low = byTokens[i].at(tokens);
  if (i + 1 >= activated.length) return low;
  const high = byTokens[i + 1].at(tokens);
  return low + ((touched - activated[i]) / (activated[i + 1] - activated[i])) * (high - low);
}
