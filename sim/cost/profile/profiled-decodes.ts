import type { Nanos } from "../../../core/trace/trace.ts";
import type { DecodeSteps } from "../cost-model.ts";
import type { Surface } from "./surface.ts";

/** Steps with profiled operators that decode the same sequences: only attention depends on their contexts. All times in ns. */
export class ProfiledDecodes implements DecodeSteps {
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

  ns(contextTokens: number, longestTokens: number): Nanos {
    const attentionNs = this.#layers * this.#layerNs(contextTokens / this.decodes, longestTokens);
    return Math.max(1, Math.round(this.denseNs + attentionNs + this.perSequenceNs + this.expertsNs));
  }

  #layerNs(meanTokens: number, longestTokens: number): number {
    const ns = this.#attention.at(0, 0, this.decodes, meanTokens);
    if (this.#skew === 0 || longestTokens <= meanTokens) return ns;
    return ns + this.#skew * Math.max(0, this.#attention.at(0, 0, this.decodes, longestTokens, 1) - ns);
  }
}
