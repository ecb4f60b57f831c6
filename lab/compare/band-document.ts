import { type Metric, metrics } from "../output/hit-ratios.ts";
import type { RunReport } from "../output/report.ts";
import type { Capacity } from "../run/capacity.ts";
import type { Band, BandGroup, Configuration, Range } from "./comparison.ts";
import type { PairedDifferences } from "./paired-differences.ts";

interface Result {
  readonly configuration: Configuration;
  readonly runs: readonly RunReport[];
}

interface BandChoice {
  readonly capacities: readonly Capacity[];
  readonly metric: Metric;
  /** The differences of `metric`, if they have intervals. */
  readonly differences: PairedDifferences | undefined;
}

/** The least and the largest of some numbers. */
export const rangeOf = (values: readonly number[]): Range => ({ low: Math.min(...values), high: Math.max(...values) });

/** The bands of a comparison; empty if every band would be a single run. */
export function bandsOf(
  results: readonly Result[],
  groups: readonly BandGroup[],
  { capacities, metric, differences }: BandChoice,
): Band[] {
  if (groups.every(({ members }) => members.length === 1)) return [];
  let count = 0;
  const firstRun = results.map(({ runs }) => (count += runs.length) - runs.length);
  const extremes = (group: BandGroup, i: number) => {
    const sorted = group.members
      .map((member) => results[member])
      .sort((a, b) => a.runs[i].cache.hitRatio[metric] - b.runs[i].cache.hitRatio[metric]);
    return { lowest: sorted[0], highest: sorted[sorted.length - 1] };
  };
  const online = groups.filter(({ members: [first] }) => results[first].configuration.kind === "online");
  const best = capacities.map((_, i) => {
    const highest = (group: BandGroup) => extremes(group, i).highest.runs[i].cache.hitRatio[metric];
    return online.reduce((most, group) => (highest(group) > highest(most) ? group : most), online[0]);
  });
  const behindBest = (group: BandGroup, i: number): Range | undefined => {
    if (!differences || !online.includes(group)) return undefined;
    const [one, other] = [extremes(best[i], i), extremes(group, i)];
    const between = (a: Result, b: Result) => differences.between(a.configuration, b.configuration, capacities[i]);
    const [least, most] = [between(one.lowest, other.highest), between(one.highest, other.lowest)];
    return least && most && { low: least.low, high: most.high };
  };
  return groups.flatMap((group) =>
    results[group.members[0]].runs.map((_, i): Band => {
      const ratios = group.members.map((member) => results[member].runs[i].cache.hitRatio);
      const ranges = metrics.map((name) => [name, rangeOf(ratios.map((ratio) => ratio[name]))]);
      const behind = behindBest(group, i);
      return {
        runs: group.members.map((member) => firstRun[member] + i),
        over: group.over,
        hitRatio: Object.fromEntries(ranges) as Band["hitRatio"],
        ...(behind && { behindBest: behind }),
      };
    }),
  );
}
