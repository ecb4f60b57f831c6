import type { RunRow } from "../../api.ts";
import { isBound, isTimed } from "./comparison.ts";
import { integer } from "./format.ts";

/** A trace, its first requests, and a target: runs of other workloads are compared only if they are selected. */
export const workloadOf = ({ trace, requests, target }: RunRow): string =>
  `${trace}, ${integer(requests)} requests, ${target}`;

/** Workloads of complete runs, that of the newest run first. */
export const workloadsOf = (rows: readonly RunRow[]): string[] => [
  ...new Set(rows.filter(({ interrupted }) => !interrupted).map(workloadOf)),
];

/** The best policy at one cache size of a workload without a clock. */
export interface SizeAnswer {
  readonly capacityTokens: number;
  readonly best: RunRow;
  /** The run of LRU with the same index, rules and seed; undefined: none was run. */
  readonly lru: RunRow | undefined;
  /** Hit ratio of the best − that of LRU. */
  readonly gain: number | undefined;
  /** Whether the 95 % interval of the gain contains 0; undefined: there is no interval. */
  readonly isGainNoise: boolean | undefined;
  /** Prompt tokens that LRU computes and the best does not. */
  readonly savedTokens: number | undefined;
  /** Share of the gap between LRU and the proven bound that the best closes; null: LRU reaches the bound. */
  readonly gapClosed: number | null | undefined;
  /** Other policies whose difference from the best is within noise. */
  readonly asGood: readonly RunRow[];
  /** Rise of the best hit ratio to the next larger size that was run, for each GiB. */
  readonly perGiB: number | undefined;
}

/** Bytes of a token's keys and values where the runs have no model: those of llama-3.1-8b in 16 bits. */
export const defaultTokenBytes = 131_072;

const GiB = 2 ** 30;
const optionsOf = ({ index, preset, settings }: RunRow) =>
  JSON.stringify([index, preset, Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1))]);

/** The best policy at each cache size, ascending. `metric`: the hit ratio. */
export function answersBySize(rows: readonly RunRow[], metric: string): SizeAnswer[] {
  const ratioOf = ({ hitRatio }: RunRow) => hitRatio[metric];
  const online = rows.filter((row) => !row.interrupted && !isBound(row) && ratioOf(row) !== undefined);
  const sizes = [...new Set(online.map(({ capacityTokens }) => capacityTokens!))].sort((a, b) => a - b);
  const bests = sizes.map((size) =>
    online
      .filter(({ capacityTokens }) => capacityTokens === size)
      .reduce((best, row) => (ratioOf(row) > ratioOf(best) ? row : best)),
  );
  return sizes.map((capacityTokens, i): SizeAnswer => {
    const same = online.filter((row) => row.capacityTokens === capacityTokens);
    const best = bests[i];
    const lru = same.find((row) => row.eviction === "lru" && optionsOf(row) === optionsOf(best));
    const next = bests[i + 1];
    const grownGiB = next && ((sizes[i + 1] - capacityTokens) * (best.kvBytesPerToken ?? defaultTokenBytes)) / GiB;
    const interval = best.uncertainty?.metric === metric ? best.uncertainty.gainOverLru : undefined;
    const isAsGood = (row: RunRow) => row.uncertainty?.metric === metric && row.uncertainty.behindBest.low <= 0;
    return {
      ...{ capacityTokens, best, lru },
      gain: lru && ratioOf(best) - ratioOf(lru),
      isGainNoise: interval && best !== lru ? interval.low <= 0 && interval.high >= 0 : undefined,
      savedTokens: lru && best.hitTokens - lru.hitTokens,
      gapClosed: best.gapClosed?.[metric],
      asGood: same.filter((row) => row !== best && isAsGood(row)),
      perGiB: next && (ratioOf(next) - ratioOf(best)) / grownGiB,
    };
  });
}

/** The best system at one offered rate of a workload with a clock. */
export interface RateAnswer {
  /** Requests per second; undefined: as in the trace. */
  readonly rate: number | undefined;
  readonly best: RunRow;
  /** The run of LRU with the other options of the best; undefined: none was run. */
  readonly lru: RunRow | undefined;
  /** All at this rate. */
  readonly runs: readonly RunRow[];
  /** Systems that meet the SLO for `sloShare` of the requests; undefined without an SLO. */
  readonly meeting: readonly RunRow[] | undefined;
}

/** The SLO of a run is met if this share of its requests meets it. */
export const sloShare = 0.99;

/** What the best system is chosen by: goodput, where the runs have an SLO, or else the 99th percentile of TTFT. */
export function answersByRate(rows: readonly RunRow[]): RateAnswer[] {
  const timed = rows.filter((row) => !row.interrupted && isTimed(row) && row.refused !== row.requests);
  const rateOf = ({ settings }: RunRow) => settings["requestsPerS"] as number | undefined;
  const rates = [...new Set(timed.map(rateOf))].sort((a, b) => (a ?? 0) - (b ?? 0));
  const worse = (a: RunRow, b: RunRow) =>
    (b.goodputRequestsPerS ?? 0) - (a.goodputRequestsPerS ?? 0) ||
    (a.refused ?? 0) - (b.refused ?? 0) ||
    (a.ttftMsP99 ?? Number.POSITIVE_INFINITY) - (b.ttftMsP99 ?? Number.POSITIVE_INFINITY);
  return rates.map((rate) => {
    const runs = timed.filter((row) => rateOf(row) === rate).sort(worse);
    const [best] = runs;
    const withSlo = runs.filter(({ sloAttained }) => sloAttained !== undefined);
    const meeting = withSlo.filter(({ sloAttained, refused }) => sloAttained! >= sloShare && refused === undefined);
    const isLru = (row: RunRow) =>
      row.eviction === "lru" && row.blocks === best.blocks && optionsOf(row) === optionsOf(best);
    return { ...{ rate, best, runs }, lru: runs.find(isLru), meeting: withSlo.length > 0 ? meeting : undefined };
  });
}
