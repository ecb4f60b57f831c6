import type { RequestResults } from "../../core/replica/replay.ts";
import type { Metric } from "../output/hit-ratios.ts";
import type { RunSink } from "../run/run-sink.ts";
import type { SessionGroups } from "./session-groups.ts";

/** The hit ratios that are sums over requests, of which the results of each request are known. */
export type SummedMetric = Extract<Metric, "block" | "token" | "requestMeanBlock" | "requestMeanToken">;

const terms: Record<SummedMetric, (results: RequestResults, row: number) => [hits: number, lookups: number]> = {
  block: ({ hitBlocks, promptBlocks }, row) => [hitBlocks[row], promptBlocks[row]],
  token: ({ hitTokens, inputTokens }, row) => [hitTokens[row], inputTokens[row]],
  requestMeanBlock: ({ hitBlocks, promptBlocks }, row) => [hitBlocks[row] / Math.max(1, promptBlocks[row]), 1],
  requestMeanToken: ({ hitTokens, inputTokens }, row) => [hitTokens[row] / Math.max(1, inputTokens[row]), 1],
};

export const isSummed = (metric: Metric): metric is SummedMetric => metric in terms;

/** Sums up the hits and lookups of a hit ratio by group of sessions, and passes on the results. */
export class SessionHits implements RunSink {
  readonly hits: Float64Array;
  readonly lookups: Float64Array;
  readonly #metric: SummedMetric;
  readonly #groups: SessionGroups;
  readonly #warmup: number;
  readonly #sink: RunSink;
  #requests = 0;

  /** `warmup`: leading requests that are not counted. */
  constructor(metric: SummedMetric, groups: SessionGroups, warmup: number, sink: RunSink) {
    this.#metric = metric;
    this.#groups = groups;
    this.#warmup = warmup;
    this.#sink = sink;
    this.hits = new Float64Array(groups.groups);
    this.lookups = new Float64Array(groups.groups);
  }

  addRequests(results: RequestResults): void {
    const of = terms[this.#metric];
    const { groupOf } = this.#groups;
    const first = this.#requests;
    for (let row = Math.max(0, this.#warmup - first); row < results.inputTokens.length; row++) {
      const group = groupOf[first + row];
      const [hits, lookups] = of(results, row);
      this.hits[group] += hits;
      this.lookups[group] += lookups;
    }
    this.#requests = first + results.inputTokens.length;
    this.#sink.addRequests(results);
  }

  addSteps(...steps: Parameters<RunSink["addSteps"]>): void {
    this.#sink.addSteps(...steps);
  }

  addEvents(...events: Parameters<NonNullable<RunSink["addEvents"]>>): void {
    this.#sink.addEvents?.(...events);
  }
}
