import type { Counters } from "../../core/cache/counters.ts";
import { assert } from "../../core/errors.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import type { RequestResults } from "../../core/replica/replay.ts";
import type { SharedBlocks } from "../compare/combinations.ts";
import { yieldToEvents } from "../control.ts";
import type { Metric, OfflineBound, Ratios } from "../output/hit-ratios.ts";
import type { BlockStream } from "../run/block-stream.ts";
import type { RunConfig } from "../run/configuration.ts";
import type { RunSink } from "../run/run-sink.ts";
import { type HitBounds, hitBounds, itemsOf } from "./hit-bounds.ts";
import type { PackingBound } from "./packing.ts";

/** Passes on the results of requests, and notes which were refused. */
export class RefusalsSink implements RunSink {
  readonly refused = new Set<number>();
  readonly #sink: RunSink;
  #requests = 0;

  constructor(sink: RunSink) {
    this.#sink = sink;
  }

  addRequests(results: RequestResults): void {
    const { refused } = results;
    for (let row = 0; row < refused.length; row++) if (refused[row] === 1) this.refused.add(this.#requests + row);
    this.#requests += refused.length;
    this.#sink.addRequests(results);
  }

  addSteps(...steps: Parameters<RunSink["addSteps"]>): void {
    this.#sink.addSteps(...steps);
  }

  addEvents(...events: Parameters<NonNullable<RunSink["addEvents"]>>): void {
    this.#sink.addEvents?.(...events);
  }
}

/** The cache of a run whose hit ratios are bounded. */
type CacheOfRun = Pick<RunConfig, "index" | "rules" | "blockTokens" | "blocks" | "warmup">;

/** The denominators of the hit ratios. */
export type LookupCounts = Pick<Counters, "lookups" | "lookupBlocks" | "lookupTokens" | "fullLookupBlocks">;

/** Computes the bounds of a trace's runs, each once for all configurations that it bounds. */
export class OfflineBounds {
  readonly #shared: SharedBlocks;
  readonly #unitTokens: number;
  readonly #metrics: readonly Metric[];
  readonly #signal: AbortSignal | undefined;
  readonly #known = new Map<BlockStream, Map<string, HitBounds>>();
  readonly #solved = new Map<HitBounds, Map<Metric, PackingBound>>();

  constructor(shared: SharedBlocks, unitTokens: number, metrics: readonly Metric[], signal?: AbortSignal) {
    this.#shared = shared;
    this.#unitTokens = unitTokens;
    this.#metrics = [...new Set(metrics)];
    this.#signal = signal;
  }

  /**
   * The bounds of a run's hit ratios, and the best solutions found. `refused`: the requests that the run refused; by default those
   * that do not fit.
   */
  async of(
    config: CacheOfRun,
    counters: LookupCounts,
    refused: ReadonlySet<number> = new Set(),
  ): Promise<Record<"hitRatio" | "reached", Ratios>> {
    const hitRatio: Ratios = {};
    const reached: Ratios = {};
    for (const metric of this.#metrics) {
      const found = await this.#boundOf(metric, config, refused);
      const whole = wholeOf(metric, counters);
      hitRatio[metric] = whole === 0 ? 0 : found.bound / whole;
      reached[metric] = whole === 0 ? 0 : found.reached / whole;
    }
    return { hitRatio, reached };
  }

  async #boundOf(metric: Metric, config: CacheOfRun, refused: ReadonlySet<number>): Promise<PackingBound> {
    let bounds = await this.#boundsOf(metric, config, undefined);
    // Every run refuses the requests that do not fit. Where one refuses others, they may have occupied no block.
    if (refused.size > bounds.tooLong) bounds = await this.#boundsOf(metric, config, refused);
    const solved = this.#solved.get(bounds) ?? new Map<Metric, PackingBound>();
    this.#solved.set(bounds, solved);
    const known = solved.get(metric) ?? bounds.of(metric);
    solved.set(metric, known);
    return known;
  }

  async #boundsOf(metric: Metric, config: CacheOfRun, refused: ReadonlySet<number> | undefined): Promise<HitBounds> {
    const { blocks, blockTokens, warmup } = config;
    assert(blocks !== undefined, "an unlimited cache has no bound");
    const rules = rulesFor(config.index, config.rules);
    const { parts, ...size } = itemsOf(metric, config, { blockTokens, unitTokens: this.#unitTokens });
    const items = await this.#shared.of(parts, size.itemTokens);
    const known = this.#known.get(items) ?? new Map<string, HitBounds>();
    this.#known.set(items, known);
    const facts = (["match-limit", "drop-blocks", "reserve", "cache-generated", "node-match"] as const).map(
      (n) => rules[n],
    );
    const key = JSON.stringify([blocks, blockTokens, size, ...facts, refused && [...refused]]);
    let bounds = known.get(key);
    if (bounds === undefined) {
      const cache = { blocks, blockTokens, rules, warmup, refused };
      known.set(key, (bounds = await hitBounds(items, cache, size, () => yieldToEvents(this.#signal))));
    }
    return bounds;
  }
}

/** The denominator of a hit ratio. */
export function wholeOf(metric: Metric, counters: LookupCounts): number {
  if (metric === "token") return counters.lookupTokens;
  if (metric === "fullBlock") return counters.fullLookupBlocks;
  return metric === "block" || metric === "anyResidentBlock" ? counters.lookupBlocks : counters.lookups;
}

/** The share of the gap between lru and the bound that a policy closes, by metric. */
export function gapsClosed(policy: Ratios, lru: Ratios, bound: Ratios): OfflineBound["gapClosed"] {
  const metrics = Object.keys(bound) as Metric[];
  return Object.fromEntries(
    metrics.map((metric) => {
      const gap = bound[metric]! - lru[metric]!;
      return [metric, gap <= 1e-12 ? null : (policy[metric]! - lru[metric]!) / gap];
    }),
  );
}
