import type { DecodeRun } from "./cost-model.ts";

/** Steps of the roofline that decode the same sequences: only attention depends on their contexts. All times in ns. */
export class RooflineDecodes {
  readonly #fullLayers: number;
  readonly #windowLayers: number;
  readonly #windowTokens: number;
  readonly #skew: number;
  /** Attention of one layer: a time per token of context, and one that depends on the number of sequences. */
  readonly #tokenNs: number;
  startNs = 0;
  decodes = 0;
  /** All other operators, in the order in which `Roofline.stepNs` adds them. */
  denseNs = 0;
  logitsNs = 0;
  expertsNs = 0;

  constructor(
    fullLayers: number,
    window: { readonly layers: number; readonly tokens: number } | undefined,
    skew: number,
    tokenNs: number,
  ) {
    this.#fullLayers = fullLayers;
    this.#windowLayers = window?.layers ?? 0;
    this.#windowTokens = window?.tokens ?? 0;
    this.#skew = skew;
    this.#tokenNs = tokenNs;
  }

  /** As `CostModel.decodeEnds`. */
  ends({ load, growing, startNs, horizonNs, most, endsNs }: DecodeRun): number {
    const { denseNs, logitsNs, expertsNs } = this;
    const fullLayers = this.#fullLayers;
    const windowLayers = this.#windowLayers;
    const windowTokens = this.#windowTokens;
    const { decodeTokens } = load;
    let { decodeContextTokens: context, longestDecodeTokens: longest, decodeWindowTokens: inWindow } = load;
    let endNs = startNs;
    let steps = 0;
    for (; steps < most; steps++) {
      context += decodeTokens;
      longest++;
      inWindow += growing;
      let attentionNs = fullLayers > 0 ? fullLayers * this.#layerNs(context, longest) : 0;
      if (windowLayers > 0) attentionNs += windowLayers * this.#layerNs(inWindow, Math.min(longest, windowTokens));
      endNs += Math.max(1, Math.round(denseNs + attentionNs + logitsNs + expertsNs));
      if (!(endNs <= horizonNs)) break;
      endsNs[steps] = endNs;
    }
    return steps;
  }

  #layerNs(contextTokens: number, longestTokens: number): number {
    const ns = this.startNs + contextTokens * this.#tokenNs;
    const longest = longestTokens * this.decodes;
    if (longest <= contextTokens) return ns;
    return ns + this.#skew * (this.startNs + longest * this.#tokenNs - ns);
  }
}
