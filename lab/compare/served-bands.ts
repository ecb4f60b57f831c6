import { metrics } from "../output/hit-ratios.ts";
import type { RunReport } from "../output/report.ts";
import { rangeOf } from "./band-document.ts";
import type { Band, Range } from "./comparison.ts";

/** Timed runs that differ only in the seed. */
export interface ServedBand extends Band {
  /** Least and largest of the runs; absent if one of them has none. */
  readonly ttftMsP50?: Range;
  readonly ttftMsP99?: Range;
  readonly tpotMsMean?: Range;
  readonly e2eMsMean?: Range;
}

const latencies = {
  ttftMsP50: ({ latency }) => latency?.ttftMs?.p50,
  ttftMsP99: ({ latency }) => latency?.ttftMs?.p99,
  tpotMsMean: ({ latency }) => latency?.tpotMs?.mean,
  e2eMsMean: ({ latency }) => latency?.e2eMs?.mean,
} satisfies Record<string, (report: RunReport) => number | undefined>;

/** Numbers of the rows with the same `key`, in the order of their first members. */
export function groupsBy(keys: readonly string[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const [i, key] of keys.entries()) groups.set(key, [...(groups.get(key) ?? []), i]);
  return [...groups.values()];
}

/** The bands of timed runs, `groups` are the numbers of those that differ only in the seed; empty if every band would be a single run. */
export function servedBands(runs: readonly RunReport[], groups: readonly (readonly number[])[]): ServedBand[] {
  if (groups.every(({ length }) => length === 1)) return [];
  return groups.map((members) => {
    const reports = members.map((member) => runs[member]);
    const ratios = metrics.map((name) => [name, rangeOf(reports.map(({ cache }) => cache.hitRatio[name]))]);
    const ranges = Object.entries(latencies).flatMap(([name, of]) => {
      const values = reports.flatMap((report) => of(report) ?? []);
      return values.length < reports.length ? [] : [[name, rangeOf(values)]];
    });
    return {
      runs: members,
      over: members.length > 1 ? ["seed"] : [],
      hitRatio: Object.fromEntries(ratios) as Band["hitRatio"],
      ...Object.fromEntries(ranges),
    };
  });
}
