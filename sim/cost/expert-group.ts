import type { StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { Collectives } from "./collectives.ts";
import type { CostModel } from "./cost-model.ts";
import type { Hardware } from "./hardware.ts";
import { expertLayers, type ModelShape } from "./model-shape.ts";

/** A cost model that computes the routed experts apart from the rest of a step. */
export interface DividedCost extends CostModel {
  /** A step without its routed experts, in ns, with its tokens padded to `paddedTokens` at least. */
  withoutExpertsNs(load: Readonly<StepLoad>, paddedTokens: number): number;
  /** The routed experts of all layers on each of the devices that share them, for the `tokens` of all replicas, in ns. */
  expertsNs(tokens: number): number;
}

export interface ExpertGroupOptions {
  readonly cost: DividedCost;
  readonly shape: ModelShape;
  readonly hardware: Hardware;
  readonly tensorParallel: number;
  readonly dataParallel: number;
  /** Default: `gather`. */
  readonly exchange?: ExpertExchange | undefined;
}

/**
 * How tokens reach the experts of other devices. `gather`: all tokens are gathered on every device, and results are reduced and
 * scattered (vLLM's `allgather_reducescatter`). `all-to-all`: a token is sent to those devices that have one of its experts, and
 * back (vLLM's `deepep_high_throughput`, computed with the times of an all-gather of as many bytes).
 */
export const expertExchanges = ["gather", "all-to-all"] as const;
export type ExpertExchange = (typeof expertExchanges)[number];

/** Steps of up to as many tokens run as CUDA graphs, for which all replicas pad to the largest number of tokens. */
const graphTokens = 512;
/** A routed expert's number and weight, 32 bits each. */
const routeBytes = 8;

/**
 * Data parallelism with experts, as in vLLM: every device computes its share of the experts for the tokens of all replicas. So
 * replicas step together, and a step takes the time of the slowest one; an idle replica computes one token. Around the experts of
 * each layer hidden states, routes and results are exchanged, in messages as large as those of the replica with the most tokens. With tensor parallelism the
 * tokens of a replica are divided among its devices before and gathered after that, instead of an all-reduce.
 */
export class ExpertGroup implements CostModel {
  readonly name: string;
  readonly windowTokens: number | undefined;
  readonly #options: ExpertGroupOptions;
  readonly #layers: number;
  /** The devices of all replicas, and those of one. */
  readonly #all: Collectives;
  readonly #own: Collectives;
  /** Bytes of a token's hidden state, and of its routes. */
  readonly #hiddenBytes: number;
  readonly #routeBytes: number;

  constructor(options: ExpertGroupOptions) {
    const { cost, shape, hardware, tensorParallel, dataParallel } = options;
    this.name = cost.name;
    this.windowTokens = cost.windowTokens;
    this.#options = options;
    this.#layers = expertLayers(shape);
    this.#all = new Collectives(hardware, tensorParallel * dataParallel);
    this.#own = new Collectives(hardware, tensorParallel);
    this.#hiddenBytes = shape.hidden * shape.numberBytes;
    this.#routeBytes = (shape.experts?.active ?? 0) * routeBytes;
  }

  stepNs(load: Readonly<StepLoad>): Nanos {
    return this.togetherNs([load]);
  }

  togetherNs(loads: readonly Readonly<StepLoad>[]): Nanos {
    const { cost, dataParallel } = this.#options;
    let most = 0;
    let all = dataParallel - loads.length;
    for (const load of loads) {
      const tokens = load.prefillTokens + load.decodeTokens;
      if (tokens > most) most = tokens;
      all += tokens;
    }
    const padded = most <= graphTokens ? most : 0;
    let ns = 0;
    for (const load of loads) ns = Math.max(ns, cost.withoutExpertsNs(load, padded));
    if (most > 0) ns += cost.expertsNs(all) + this.#layers * this.exchangeNs(most);
    return Math.max(1, Math.round(ns));
  }

  /** Collectives around the experts of one layer, with `tokens` per replica. */
  exchangeNs(tokens: number): number {
    const share = Math.ceil(tokens / this.#options.tensorParallel);
    const ownBytes = share * this.#hiddenBytes;
    const routedBytes = ownBytes + share * this.#routeBytes;
    const { exchange, shape } = this.#options;
    // The share of tokens with an expert on a given device, if experts are chosen uniformly.
    const sent = 1 - (1 - 1 / this.#all.devices) ** (shape.experts?.active ?? 0);
    const exchangedNs =
      exchange === "all-to-all"
        ? this.#all.allToAllNs(sent * routedBytes) + this.#all.allToAllNs(sent * ownBytes)
        : this.#all.allGatherNs(routedBytes) + this.#all.reduceScatterNs(ownBytes);
    // The all-reduce is part of the step without experts.
    return exchangedNs + this.#own.allGatherNs(ownBytes) - this.#own.allReduceNs(tokens * this.#hiddenBytes);
  }
}
