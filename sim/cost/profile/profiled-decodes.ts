import type { DecodeRun } from "../cost-model.ts";
import type { Surface } from "./surface.ts";

/** Steps with profiled operators that decode the same sequences: only attention depends on their contexts. All times in ns. */
export class ProfiledDecodes {
  readonly #attention: Surface;
  readonly #skew: number;
  readonly #layers: number;
  decodes = 0;
  /** All other operators, in the order in which `Profiled.stepNs` adds them. */
  denseNs = 0;
  perSequenceNs = 0;
  expertsNs = 0;

  constructor(attention: Surface, skew: number, layers: number) {
    this.#attention = attention;
    this.#skew = skew;
    this.#layers = layers;
  }

  /**
   * As `CostModel.decodeEnds`. The surface is read where the mean or the longest context reaches a measured one; in the steps up
   * to the next one, the attention is on two lines.
   */
  ends({ load, startNs, horizonNs, most, endsNs }: DecodeRun): number {
    const { decodes, denseNs, perSequenceNs, expertsNs } = this;
    const attention = this.#attention;
    const layers = this.#layers;
    const [ofMean, ofLongest] = attention.segments;
    let { decodeContextTokens: context, longestDecodeTokens: longest } = load;
    // Mean and longest context grow alike: one comparison is valid for all steps.
    const skew = longest * decodes > context ? this.#skew : 0;
    let [startOfMean, slopeOfMean, startOfLongest, slopeOfLongest] = [0, 0, 0, 0];
    let stepsOnLines = 0;
    let endNs = startNs;
    let steps = 0;
    for (; steps < most; steps++) {
      context += decodes;
      longest++;
      const mean = context / decodes;
      let meanNs: number;
      let longestNs: number;
      if (stepsOnLines-- > 0) {
        meanNs = Math.max(0, startOfMean + slopeOfMean * mean);
        longestNs = Math.max(0, startOfLongest + slopeOfLongest * longest);
      } else {
        meanNs = attention.at(0, 0, decodes, mean);
        longestNs = skew === 0 ? meanNs : attention.at(0, 0, decodes, longest, 1);
        stepsOnLines = Math.floor(Math.min(ofMean.high - mean, skew === 0 ? most : ofLongest.high - longest)) - 1;
        startOfMean = ofMean.ns;
        slopeOfMean = ofMean.slope;
        startOfLongest = ofLongest.ns;
        slopeOfLongest = ofLongest.slope;
      }
      const attentionNs = layers * (meanNs + skew * Math.max(0, longestNs - meanNs));
      endNs += Math.max(1, Math.round(denseNs + attentionNs + perSequenceNs + expertsNs));
      if (!(endNs <= horizonNs)) break;
      endsNs[steps] = endNs;
    }
    return steps;
  }
}
