import type { Interval, RunRow, Setting } from "../../api.ts";
import {
  approximate,
  hitRatios,
  milliseconds,
  percent,
  perSecond,
  points,
  roundPercent,
  settingParts,
  tickMs,
} from "./format.ts";
import { haveOneSize, sameSize } from "./line-breaks.ts";

/** A quantity of a run that can be an axis of a figure. */
export interface Quantity {
  readonly name: string;
  /** With its unit. */
  readonly label: string;
  of(row: RunRow): number | undefined;
  text(value: number): string;
  /** For axis ticks. */
  tick(value: number): string;
  /** false: never drawn on a logarithmic axis. */
  readonly isLog?: boolean;
  /** Whether the smaller of two values is the better one; absent: neither is. */
  readonly isLessBetter?: boolean;
  /** The 95 % interval of the value, if the run has one. */
  interval?(row: RunRow): Interval | undefined;
}

const quantity = (
  name: string,
  label: string,
  of: Quantity["of"],
  text: Quantity["text"] = approximate,
  tick = text,
): Quantity => ({ name, label, of, text, tick });

/** A share of 1. */
const ratio = (name: string, label: string, of: Quantity["of"]): Quantity => ({
  ...quantity(name, label, of, percent, roundPercent),
  isLog: false,
});

const latency = (name: string, label: string, of: Quantity["of"]): Quantity =>
  lessIsBetter(quantity(name, label, of, milliseconds, tickMs));

const moreIsBetter = (each: Quantity): Quantity => ({ ...each, isLessBetter: false });
const lessIsBetter = (each: Quantity): Quantity => ({ ...each, isLessBetter: true });

/** A difference of two hit ratios that `kvlab compare` saved, with its interval. */
const difference = (
  name: string,
  label: string,
  of: "gainOverLru" | "behindBest",
  isLessBetter: boolean,
): Quantity => ({
  ...quantity(
    name,
    label,
    ({ uncertainty }) => uncertainty?.[of].value,
    points,
    (value) => points(value).replace(" points", ""),
  ),
  ...{ isLog: false, isLessBetter },
  interval: ({ uncertainty }) => uncertainty?.[of],
});

const results: readonly Quantity[] = [
  ...Object.entries(hitRatios).map(([name, label]) =>
    moreIsBetter(ratio(`hits-${name}`, `hit ratio, ${label}`, ({ hitRatio }) => hitRatio[name])),
  ),
  difference("gain", "gain over LRU, points of the hit ratio", "gainOverLru", false),
  difference("behind", "behind the best, points of the hit ratio", "behindBest", true),
  moreIsBetter(quantity("throughput", "throughput, req/s", ({ requestsPerS }) => requestsPerS, perSecond, approximate)),
  moreIsBetter(quantity("output", "throughput, output tokens/s", ({ outputTokensPerS }) => outputTokensPerS)),
  moreIsBetter(
    quantity("goodput", "goodput, req/s", ({ goodputRequestsPerS }) => goodputRequestsPerS, perSecond, approximate),
  ),
  moreIsBetter(ratio("slo", "requests that meet the SLO", ({ sloAttained }) => sloAttained)),
  latency("ttft50", "TTFT p50", ({ ttftMsP50 }) => ttftMsP50),
  latency("ttft99", "TTFT p99", ({ ttftMsP99 }) => ttftMsP99),
  latency("tpot50", "TPOT p50", ({ tpotMsP50 }) => tpotMsP50),
  latency("tpot99", "TPOT p99", ({ tpotMsP99 }) => tpotMsP99),
  latency("latency50", "end-to-end latency p50", ({ latencyMsP50 }) => latencyMsP50),
  latency("queue50", "queueing time p50", ({ queueMsP50 }) => queueMsP50),
  latency("queue99", "queueing time p99", ({ queueMsP99 }) => queueMsP99),
  ratio("utilisation", "utilisation", ({ utilisation }) => utilisation),
  lessIsBetter(quantity("imbalance", "requests of the busiest replica ÷ mean", ({ imbalance }) => imbalance)),
  lessIsBetter(quantity("refused", "refused requests", ({ refused = 0 }) => refused)),
  lessIsBetter(quantity("memory", "cache memory, GiB", memoryOf)),
  lessIsBetter(
    quantity("gpus", "GPUs", gpusOf, approximate, (count) => (Number.isInteger(count) ? String(count) : "")),
  ),
];

/** Memory of the caches of all replicas, GiB; of a run without a model it is not known. */
function memoryOf({ capacityTokens, kvBytesPerToken, settings }: RunRow): number | undefined {
  if (capacityTokens === null || kvBytesPerToken === undefined) return undefined;
  return (capacityTokens * kvBytesPerToken * countOf(settings["replicas"])) / 2 ** 30;
}

/** Only for simulated runs. */
function gpusOf({ settings }: RunRow): number | undefined {
  const { replicas, tensorParallel, pipelineParallel } = settings;
  return "gpu" in settings ? countOf(replicas) * countOf(tensorParallel) * countOf(pipelineParallel) : undefined;
}

const countOf = (setting: Setting | undefined) => (typeof setting === "number" ? setting : 1);

const differ = (rows: readonly RunRow[], { of }: Quantity) => new Set(rows.map(of)).size > 1;

/** Whether values differ by more than sizes of one number of tokens in systems with other block sizes do. */
function differClearly(rows: readonly RunRow[], { of }: Quantity): boolean {
  const values = rows.map(of).filter((value) => value !== undefined);
  return (
    Math.max(...values) > Math.min(...values) * sameSize || new Set(rows.map((row) => of(row) === undefined)).size > 1
  );
}

/** Results that say nothing where all runs have the same value. */
const needsDifference: ReadonlySet<string> = new Set(["refused", "memory", "gpus"]);

/** Results that some of the runs have. */
export const resultsOf = (rows: readonly RunRow[]): Quantity[] =>
  results.filter(
    (each) =>
      rows.some((row) => each.of(row) !== undefined) && (!needsDifference.has(each.name) || differClearly(rows, each)),
  );

const size = quantity("capacity", "cache size, tokens", ({ capacityTokens }) => capacityTokens ?? undefined);

/** The cache size and numeric settings in which the runs differ, and their results. */
export const abscissasOf = (rows: readonly RunRow[]): Quantity[] => [...settingsOf(rows), ...resultsOf(rows)];

function settingsOf(rows: readonly RunRow[]): Quantity[] {
  const names = [...new Set(rows.flatMap(({ settings }) => Object.keys(settings)))];
  const numeric = names.filter((name) => rows.every(({ settings }) => typeof settings[name] === "number"));
  const settings = numeric.map((name) =>
    quantity(
      name,
      name === "requestsPerS" ? "offered rate, req/s" : settingParts(name, 1)[0],
      (row) => row.settings[name] as number,
      (value) => settingParts(name, value)[1],
      approximate,
    ),
  );
  const differing = settings.filter((each) => differ(rows, each));
  return haveOneSize(rows) ? differing : [size, ...differing];
}

/**
 * The axes that answer the first question about these runs: results by offered rate where rates differ, or by cache size;
 * undefined: no numeric setting differs.
 */
export function defaultAxes(rows: readonly RunRow[]): { readonly x: string; readonly y: string } | undefined {
  const all = settingsOf(rows);
  const x = (all.find(({ name }) => name === "requestsPerS") ?? all[0])?.name;
  if (x === undefined) return undefined;
  return { x, y: rows.some(({ ttftMsP99 }) => ttftMsP99 !== undefined) ? "ttft99" : "hits-token" };
}
