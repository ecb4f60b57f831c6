import type { RequestResults } from "../../core/replica/replay.ts";
import { hitsOf, lookupsOf, type SummedMetric } from "../output/request-hits.ts";
import type { RunSink } from "../run/run-sink.ts";
import type { SessionGroups } from "./session-groups.ts";

/** Sums up the hits and lookups of a hit ratio by group of sessions, and passes on the results. */
export class SessionHits implements RunSink {
  readonly hits: Float64Array;
  readonly lookups: Float64Array;
  readonly #metric: SummedMetric;
  readonly #groups: SessionGroups;
  readonly #blockTokens: number;
  readonly #warmup: number;
  readonly #sink: RunSink;
  #requests = 0;

  /** `warmup`: leading requests that are not counted. */
  constructor(metric: SummedMetric, groups: SessionGroups, blockTokens: number, warmup: number, sink: RunSink) {
    this.#metric = metric;
    this.#groups = groups;
    this.#blockTokens = blockTokens;
    this.#warmup = warmup;
    this.#sink = sink;
    this.hits = new Float64Array(groups.groups);
    this.lookups = new Float64Array(groups.groups);
  }

  addRequests(results: RequestResults): void {
    const { groupOf } = this.#groups;
    const metric = this.#metric;
    const size = { promptBlocks: 0, inputTokens: 0, fullBlocks: 0 };
    const first = this.#requests;
    for (let row = Math.max(0, this.#warmup - first); row < results.inputTokens.length; row++) {
      const group = groupOf[first + row];
      size.promptBlocks = results.promptBlocks[row];
      size.inputTokens = results.inputTokens[row];
      size.fullBlocks = Math.floor(size.inputTokens / this.#blockTokens);
      this.hits[group] += hitsOf(metric, size, results.hitBlocks[row], results.hitTokens[row]);
      this.lookups[group] += lookupsOf(metric, size);
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
