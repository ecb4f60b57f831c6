import type { Nanos } from "../../core/trace/trace.ts";
import type { DecodeSteps } from "./cost-model.ts";

/** Steps of the roofline that decode the same sequences: only attention depends on their contexts. All times in ns. */
export class RooflineDecodes implements DecodeSteps {
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

  ns(contextTokens: number, longestTokens: number, windowTokens: number): Nanos {
    let attentionNs = this.#fullLayers > 0 ? this.#fullLayers * this.#layerNs(contextTokens, longestTokens) : 0;
    if (this.#windowLayers > 0)
      attentionNs += this.#windowLayers * this.#layerNs(windowTokens, Math.min(longestTokens, this.#windowTokens));
    return Math.max(1, Math.round(this.denseNs + attentionNs + this.logitsNs + this.expertsNs));
  }

  #layerNs(contextTokens: number, longestTokens: number): number {
    const ns = this.startNs + contextTokens * this.#tokenNs;
    const longest = longestTokens * this.decodes;
    if (longest <= contextTokens) return ns;
    return ns + this.#skew * (this.startNs + longest * this.#tokenNs - ns);
  }
}
