import { CachedCopies } from "./cached-copies.ts";
import { type Distribution, distribution, quantile } from "./distribution.ts";
import { measuredRequests, type Served } from "./measured-requests.ts";
import { type OfferedLoad, offeredLoad } from "./offered-load.ts";

/** Latency of the requests that finished; null if there are none (`tpotMs`: none with a second output token). */
export interface Latency {
  /** From arrival to the first output token. */
  readonly ttftMs: Distribution | null;
  /** From the first output token to the last one, per token after the first. */
  readonly tpotMs: Distribution | null;
  /** From arrival to the last output token. */
  readonly e2eMs: Distribution | null;
  /** From arrival to the first admission. */
  readonly queueMs: Distribution | null;
}

/** Finished requests and their tokens per second of the makespan: from the first arrival to the last end of a request. */
export interface Throughput {
  readonly requestsPerS: number;
  readonly inputTokensPerS: number;
  readonly outputTokensPerS: number;
  readonly makespanS: number;
}

/** Metrics that a service-level objective limits. */
export const sloMetrics = ["ttftMs", "tpotMs", "e2eMs"] as const;
/** A metric that a service-level objective limits. */
export type SloMetric = (typeof sloMetrics)[number];

/** Service-level objectives, in ms; an absent one is always attained. */
export interface Slo {
  readonly ttftMs?: number | undefined;
  readonly tpotMs?: number | undefined;
  readonly e2eMs?: number | undefined;
  /** Percentiles that must be within these limits, above 0, up to 100. */
  readonly percentiles?: Readonly<Partial<Record<SloMetric, number>>> | undefined;
}

/** A percentile of a metric, and its limit. */
export interface Objective {
  readonly metric: SloMetric;
  readonly percentile: number;
  readonly limitMs: number;
  /** Of all requests with the metric, 0 without any; null if it is infinite, because requests were refused. */
  readonly valueMs: number | null;
  readonly met: boolean;
}

/** Share of the requests, refused ones included, that attained every objective, and their rate. */
export interface SloMetrics extends Slo {
  /** Share of the requests, 0 to 1. */
  readonly attained: number;
  /** Requests that attained every objective, per second of the makespan. */
  readonly goodputRequestsPerS: number;
  /** The limits with a percentile. */
  readonly objectives?: readonly Objective[];
}

export interface ReplicaMetrics {
  readonly requests: number;
  readonly lookupTokens: number;
  readonly hitTokens: number;
  readonly hitRatioToken: number;
  /** Share of the makespan in which a step ran. */
  readonly utilisation: number;
  readonly steps: number;
  /** With separate replicas for prefill and decode. */
  readonly role?: "prefill" | "decode";
}

/** Metrics of several replicas. */
export interface ClusterMetrics {
  readonly replicas: readonly ReplicaMetrics[];
  /** Requests of the busiest replica ÷ mean; with separate replicas for prefill and decode, of the less balanced pool. */
  readonly imbalance: number;
  /**
   * Share of the prompt blocks cached at the end that are copies: all but one of each content. Caches of decode replicas do not
   * count.
   */
  readonly duplicated: number;
}

/** Requests of the busiest replica ÷ mean; 1 if there are none. */
function imbalanceOf(replicas: readonly ReplicaMetrics[]): number {
  const requests = replicas.map((each) => each.requests);
  const total = requests.reduce((sum, count) => sum + count, 0);
  return total === 0 ? 1 : (Math.max(...requests) * replicas.length) / total;
}

const msPerNs = 1e-6;

/** Latency of one finished request. */
export interface RequestLatency {
  readonly ttftMs: number;
  /** Undefined if the request has one output token. */
  readonly tpotMs: number | undefined;
  readonly e2eMs: number;
  readonly queueMs: number;
}

/** The columns that request times are computed from. */
export type TimedOutcomes = {
  readonly [Name in
    | "refused"
    | "arrivalNs"
    | "admittedNs"
    | "firstTokenNs"
    | "finishedNs"
    | "outputTokens"]: ArrayLike<number>;
};

/** Times of request `row`; undefined if it was refused. */
export function timesOf(outcomes: TimedOutcomes, row: number): RequestLatency | undefined {
  if (outcomes.refused[row] === 1) return undefined;
  const { arrivalNs, admittedNs, firstTokenNs, finishedNs, outputTokens } = outcomes;
  const arrival = arrivalNs[row];
  const decodeTokens = outputTokens[row] - 1;
  return {
    ttftMs: (firstTokenNs[row] - arrival) * msPerNs,
    tpotMs: decodeTokens > 0 ? ((finishedNs[row] - firstTokenNs[row]) * msPerNs) / decodeTokens : undefined,
    e2eMs: (finishedNs[row] - arrival) * msPerNs,
    queueMs: (admittedNs[row] - arrival) * msPerNs,
  };
}

/** Metrics of the requests that have ended, without the first `warmup` requests of the trace. */
export class Metrics {
  /** From the first arrival to the last end of a request. */
  readonly makespanS: number;
  readonly #run: Served;
  readonly #warmup: number;

  constructor(run: Served, warmup = 0) {
    this.#run = run;
    this.#warmup = warmup;
    this.makespanS = this.#findMakespanS();
  }

  latency(): Latency {
    let count = 0;
    for (const _ of this.#served()) count++;
    const values = new Float64Array(count);
    const of = (name: keyof RequestLatency) => {
      let length = 0;
      for (const times of this.#served()) {
        const value = times[name];
        if (value !== undefined) values[length++] = value;
      }
      return distribution(values.subarray(0, length));
    };
    return { ttftMs: of("ttftMs"), tpotMs: of("tpotMs"), e2eMs: of("e2eMs"), queueMs: of("queueMs") };
  }

  throughput(): Throughput {
    let requests = 0;
    let inputTokens = 0;
    let outputTokens = 0;
    for (const { outcomes, row } of this.#rows()) {
      if (outcomes.refused[row] === 1) continue;
      requests++;
      inputTokens += outcomes.inputTokens[row];
      outputTokens += outcomes.outputTokens[row];
    }
    const { makespanS } = this;
    const perS = (count: number) => (makespanS === 0 ? 0 : count / makespanS);
    return {
      requestsPerS: perS(requests),
      inputTokensPerS: perS(inputTokens),
      outputTokensPerS: perS(outputTokens),
      makespanS,
    };
  }

  load(): OfferedLoad {
    return offeredLoad(this.#run, this.#warmup);
  }

  slo(slo: Slo): SloMetrics {
    const within = (value: number | undefined, most: number | undefined) =>
      value === undefined || most === undefined || value <= most;
    let attained = 0;
    for (const times of this.#served())
      if (within(times.ttftMs, slo.ttftMs) && within(times.tpotMs, slo.tpotMs) && within(times.e2eMs, slo.e2eMs))
        attained++;
    let requests = 0;
    for (const _ of this.#rows()) requests++;
    const { makespanS } = this;
    return {
      ...slo,
      attained: requests === 0 ? 0 : attained / requests,
      goodputRequestsPerS: makespanS === 0 ? 0 : attained / makespanS,
      ...(slo.percentiles && { objectives: this.#objectives(slo) }),
    };
  }

  #objectives({ percentiles = {}, ...limits }: Slo): Objective[] {
    return sloMetrics.flatMap((metric) => {
      const [limitMs, percentile] = [limits[metric], percentiles[metric]];
      if (limitMs === undefined || percentile === undefined) return [];
      const sorted = this.#sorted(metric);
      const value = sorted.length === 0 ? 0 : quantile(sorted, percentile / 100);
      return [{ metric, percentile, limitMs, valueMs: Number.isFinite(value) ? value : null, met: value <= limitMs }];
    });
  }

  /** Infinite for a refused request. */
  #sorted(metric: SloMetric): Float64Array {
    const values: number[] = [];
    for (const { outcomes, row } of this.#rows()) {
      const times = timesOf(outcomes, row);
      const value = times ? times[metric] : Number.POSITIVE_INFINITY;
      if (value !== undefined) values.push(value);
    }
    return Float64Array.from(values).sort();
  }

  /** `copies` has all prompts; it may be omitted if the arrivals have not released them. */
  cluster(copies = this.#copies()): ClusterMetrics {
    const { replicas } = this.#run;
    const makespanNs = this.makespanS * 1e9;
    const metrics = replicas.map(({ cache: { counters }, busyNs, stepCount, isPrefill }) => ({
      requests: counters.lookups,
      lookupTokens: counters.lookupTokens,
      hitTokens: counters.hitTokens,
      hitRatioToken: counters.lookupTokens === 0 ? 0 : counters.hitTokens / counters.lookupTokens,
      // Warm-up requests may run longer than the last measured one.
      utilisation: makespanNs === 0 ? 0 : Math.min(1, busyNs / makespanNs),
      steps: stepCount,
      ...(this.#run.transfers && { role: isPrefill ? ("prefill" as const) : ("decode" as const) }),
    }));
    const pools = (["prefill", "decode", undefined] as const).map((role) =>
      metrics.filter((each) => each.role === role),
    );
    return {
      replicas: metrics,
      imbalance: Math.max(...pools.map(imbalanceOf)),
      duplicated: copies.ratio,
    };
  }

  #copies(): CachedCopies {
    const { replicas, arrivals } = this.#run;
    const copies = new CachedCopies(replicas);
    if (replicas.length > 1) for (const { columns, outcomes } of arrivals.batches) copies.add(columns!, outcomes);
    return copies;
  }

  #findMakespanS(): number {
    let first = Number.POSITIVE_INFINITY;
    let last = 0;
    for (const { outcomes, row } of this.#rows()) {
      first = Math.min(first, outcomes.arrivalNs[row]);
      last = Math.max(last, outcomes.finishedNs[row]);
    }
    return Math.max(0, last - first) / 1e9;
  }

  #rows(): ReturnType<typeof measuredRequests> {
    return measuredRequests(this.#run, this.#warmup);
  }

  *#served(): Generator<RequestLatency> {
    for (const { outcomes, row } of this.#rows()) {
      const times = timesOf(outcomes, row);
      if (times) yield times;
    }
  }
}
