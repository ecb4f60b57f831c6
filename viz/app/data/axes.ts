import type { RunRow } from "../../api.ts";
import {
  approximate,
  hitRatios,
  milliseconds,
  percent,
  perSecond,
  roundPercent,
  settingParts,
  tickMs,
} from "./format.ts";
import { haveOneSize } from "./line-breaks.ts";

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

const results: readonly Quantity[] = [
  ...Object.entries(hitRatios).map(([name, label]) =>
    ratio(`hits-${name}`, `hit ratio, ${label}`, ({ hitRatio }) => hitRatio[name]),
  ),
  quantity("throughput", "throughput, req/s", ({ requestsPerS }) => requestsPerS, perSecond, approximate),
  quantity("output", "throughput, output tokens/s", ({ outputTokensPerS }) => outputTokensPerS),
  quantity("goodput", "goodput, req/s", ({ goodputRequestsPerS }) => goodputRequestsPerS, perSecond, approximate),
  ratio("slo", "requests that meet the SLO", ({ sloAttained }) => sloAttained),
  quantity("ttft50", "TTFT p50", ({ ttftMsP50 }) => ttftMsP50, milliseconds, tickMs),
  quantity("ttft99", "TTFT p99", ({ ttftMsP99 }) => ttftMsP99, milliseconds, tickMs),
  quantity("tpot50", "TPOT p50", ({ tpotMsP50 }) => tpotMsP50, milliseconds, tickMs),
  quantity("tpot99", "TPOT p99", ({ tpotMsP99 }) => tpotMsP99, milliseconds, tickMs),
  quantity("latency50", "end-to-end latency p50", ({ latencyMsP50 }) => latencyMsP50, milliseconds, tickMs),
  ratio("utilisation", "utilisation", ({ utilisation }) => utilisation),
  quantity("refused", "refused requests", ({ refused = 0 }) => refused),
];

const differ = (rows: readonly RunRow[], { of }: Quantity) => new Set(rows.map(of)).size > 1;

/** Results that some of the runs have. */
export const resultsOf = (rows: readonly RunRow[]): Quantity[] =>
  results.filter(
    (each) => rows.some((row) => each.of(row) !== undefined) && (each.name !== "refused" || differ(rows, each)),
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
