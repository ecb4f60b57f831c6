import type { RunRow } from "../../api.ts";
import type { TokenCounts } from "../charts/miss-reasons.ts";
import type { ResidencyReport } from "../charts/residency.ts";
import { approximate, integer, milliseconds, percent, perSecond, roundPercent, settingParts } from "../data/format.ts";
import type { Tile } from "./metric-tiles.ts";

/** Replicas as in a report. */
export interface ClusterReport {
  readonly replicas: readonly {
    readonly requests: number;
    readonly hitRatioToken: number;
    readonly utilisation: number;
    readonly steps: number;
    readonly role?: string;
  }[];
  /** Requests of the busiest replica ÷ mean. */
  readonly imbalance: number;
  /** Share of the cached prompt blocks that are copies. */
  readonly duplicated: number;
}

/** The fields of a run's report (schema run/1) that this view shows. */
export interface Report {
  readonly trace: {
    readonly files: readonly string[];
    readonly requests: number;
    readonly inputTokens: number;
    readonly outputTokens: number;
  };
  readonly policy: { readonly rules: Readonly<Record<string, unknown>> };
  readonly seed: number;
  readonly warmup: number;
  readonly cache: TokenCounts & {
    readonly evictedBlocks: number;
    readonly refusedRequests: number;
    readonly preemptions?: number;
  };
  readonly latency: Readonly<
    Record<string, { readonly mean: number; readonly p50: number; readonly p99: number } | null>
  > | null;
  readonly throughput: {
    readonly requestsPerS: number;
    readonly outputTokensPerS: number;
    readonly makespanS: number;
  } | null;
  readonly simulation?: Readonly<Record<string, unknown>>;
  readonly engine?: Readonly<Record<string, unknown>>;
  readonly residency?: ResidencyReport;
  readonly load?: { readonly offeredRequestsPerS: number | null; readonly limitedBy: string | null } | null;
  readonly slo?: {
    readonly attained: number;
    readonly goodputRequestsPerS: number;
    readonly objectives?: readonly { readonly met: boolean }[];
  } | null;
  readonly cluster?: ClusterReport | null;
  readonly refusals?: Readonly<Record<string, number>>;
  readonly interrupted?: { readonly requestsDone: number; readonly of: number };
}

/** The metrics of a run; those that it does not have are left out. */
export function runTiles(row: RunRow, report: Report): Tile[] {
  const { cache, latency, throughput, trace } = report;
  const latencyTile = (name: string, title: string): Tile[] => {
    const found = latency?.[name];
    return found
      ? [[title, milliseconds(found.p50), `p99 ${milliseconds(found.p99)}, mean ${milliseconds(found.mean)}`]]
      : [];
  };
  const throughputTiles: Tile[] = throughput
    ? [
        [
          "Throughput",
          perSecond(throughput.requestsPerS),
          `${approximate(throughput.outputTokensPerS)} output tokens/s`,
        ],
        ["Duration", milliseconds(throughput.makespanS * 1000), "from the first arrival to the last token"],
      ]
    : [];
  return [
    [
      "Hit ratio, tokens",
      percent(row.hitRatio["token"]),
      `${approximate(cache.hitTokens)} of ${approximate(cache.lookupTokens)} tokens`,
    ],
    [
      "Hit ratio, blocks",
      percent(row.hitRatio["block"]),
      `mean of requests ${percent(row.hitRatio["requestMeanBlock"])}`,
    ],
    [
      "Cache size",
      row.blocks === null ? "unlimited" : `${approximate(row.capacityTokens ?? 0)} tokens`,
      row.blocks === null
        ? `blocks of ${row.blockTokens} tokens`
        : `${integer(row.blocks)} blocks of ${row.blockTokens}`,
    ],
    ["Requests", integer(trace.requests), refusedText(cache.refusedRequests, report.refusals)],
    ...latencyTile("ttftMs", "TTFT p50"),
    ...latencyTile("tpotMs", "TPOT p50"),
    ...latencyTile("e2eMs", "End-to-end latency p50"),
    ...latencyTile("queueMs", "Queueing time p50"),
    ...throughputTiles,
    ...serviceTiles(report),
    ["Evicted blocks", integer(cache.evictedBlocks), `${integer(cache.preemptions ?? 0)} preemptions`],
  ];
}

/** Reasons of refusals in words: "3 refused: too-long 2, no-space 1". */
export function refusedText(refused: number, reasons: Readonly<Record<string, number>> = {}): string {
  const all = Object.entries(reasons).map(([reason, count]) => `${reason} ${integer(count)}`);
  return `${integer(refused)} refused${all.length > 0 ? `: ${all.join(", ")}` : ""}`;
}

/** The share of time with a batch: the mean over replicas and its range. */
export function utilisationTiles(replicas: readonly { readonly utilisation: number }[]): Tile[] {
  const busy = replicas.map(({ utilisation }) => utilisation);
  if (busy.length === 0) return [];
  const mean = busy.reduce((sum, each) => sum + each, 0) / busy.length;
  const range = `${roundPercent(Math.min(...busy))} to ${roundPercent(Math.max(...busy))} of ${busy.length} replicas`;
  return [["Utilisation", percent(mean), busy.length > 1 ? range : "share of time with a batch"]];
}

/** SLO, utilisation and balance, beside the throughput. */
function serviceTiles({ slo, cluster, load }: Report): Tile[] {
  const tiles: Tile[] = [];
  if (slo)
    tiles.push(["Goodput", perSecond(slo.goodputRequestsPerS), `${percent(slo.attained)} of requests meet the SLO`]);
  if (load?.offeredRequestsPerS)
    tiles.push(["Offered load", perSecond(load.offeredRequestsPerS), limitText(load.limitedBy)]);
  if (cluster) tiles.push(...utilisationTiles(cluster.replicas));
  if (cluster && cluster.replicas.length > 1)
    tiles.push([
      "Replica balance",
      `× ${cluster.imbalance.toFixed(2)}`,
      `requests of the busiest ÷ mean; ${percent(cluster.duplicated)} of cached blocks are copies`,
    ]);
  return tiles;
}

const limitText = (limit: string | null) =>
  limit === null || limit === "load" ? "served as it arrives" : `limited by ${settingParts(limit, "")[0]}`;
