import type { RunRow } from "../../api.ts";
import { isBound, isTimed } from "./comparison.ts";
import { integer } from "./format.ts";
import { sameSize } from "./line-breaks.ts";

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
  /** The run of the reference at this size; undefined: none was run. */
  readonly reference: RunRow | undefined;
  /** Hit ratio of the best − that of the reference. */
  readonly gain: number | undefined;
  /** Whether the 95 % interval of the gain contains 0; undefined: there is no interval. */
  readonly isGainNoise: boolean | undefined;
  /** Prompt tokens that the reference computes and the best does not. */
  readonly savedTokens: number | undefined;
  /** Share of the gap between LRU and the proven bound that the best closes; null: LRU reaches the bound. */
  readonly gapClosed: number | null | undefined;
  /** Other policies whose difference from the best is within noise. */
  readonly asGood: readonly RunRow[];
  /** Rise of the best hit ratio to the next larger size that was run, for each GiB. */
  readonly perGiB: number | undefined;
  /** The best policy at twice the size, and the rise of the hit ratio; undefined: that size was not run. */
  readonly doubled: { readonly best: RunRow; readonly gain: number } | undefined;
  /** The offline optimum at this size; undefined: none was run. */
  readonly optimum: RunRow | undefined;
}

/** Bytes of a token's keys and values where the runs have no model: those of llama-3.1-8b in 16 bits. */
export const defaultTokenBytes = 131_072;

const GiB = 2 ** 30;
const knownTexts = new WeakMap<RunRow["settings"], string>();

/** Settings as a text; runs with equal settings share them. */
function textOf(settings: RunRow["settings"]): string {
  const known = knownTexts.get(settings);
  if (known !== undefined) return known;
  const text = JSON.stringify(Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1)));
  knownTexts.set(settings, text);
  return text;
}

/** The index, preset and settings of a run. */
const optionsOf = ({ index, preset, settings }: RunRow) => `${index} ${preset} ${textOf(settings)}`;

/** The index, preset, policy and settings of a run, without its cache size and its rate. */
const systemOf = ({ settings: { requestsPerS: _, speed: __, ...settings }, ...row }: RunRow) =>
  JSON.stringify([row.eviction, optionsOf({ ...row, settings })]);

/** The pinned baseline of these runs; undefined: the reference is LRU with the options of the best. */
export const pinnedIn = (rows: readonly RunRow[]): RunRow | undefined => rows.find(({ notes }) => notes?.baseline);

/** Whether `row` is the run that `best` is compared with: of the same size and rate. */
const isReferenceOf = (row: RunRow, best: RunRow, pinned: RunRow | undefined): boolean =>
  pinned ? systemOf(row) === systemOf(pinned) : row.eviction === "lru" && optionsOf(row) === optionsOf(best);

/** The best policy at each cache size, ascending. `metric`: the hit ratio. */
export function answersBySize(rows: readonly RunRow[], metric: string): SizeAnswer[] {
  const ratioOf = ({ hitRatio }: RunRow) => hitRatio[metric];
  const online = rows.filter((row) => !row.interrupted && !isBound(row) && ratioOf(row) !== undefined);
  const pinned = pinnedIn(online);
  const optima = rows.filter((row) => !row.interrupted && row.eviction === "belady" && ratioOf(row) !== undefined);
  const sizes = [...new Set(online.map(({ capacityTokens }) => capacityTokens!))].sort((a, b) => a - b);
  const bests = sizes.map((size) =>
    online
      .filter(({ capacityTokens }) => capacityTokens === size)
      .reduce((best, row) => (ratioOf(row) > ratioOf(best) ? row : best)),
  );
  return sizes.map((capacityTokens, i): SizeAnswer => {
    const same = online.filter((row) => row.capacityTokens === capacityTokens);
    const best = bests[i];
    const reference = same.find((row) => isReferenceOf(row, best, pinned));
    const twice = sizes.findIndex((size) => isAbout(size, 2 * capacityTokens));
    const optimum = optima.find((row) => row.capacityTokens === capacityTokens);
    // Systems with other block sizes cannot have equal numbers of tokens.
    const larger = sizes.findIndex((each) => each > capacityTokens * sameSize);
    const next = bests[larger];
    const grownGiB = next && ((sizes[larger] - capacityTokens) * (best.kvBytesPerToken ?? defaultTokenBytes)) / GiB;
    const interval = best.uncertainty?.metric === metric ? best.uncertainty.gainOverLru : undefined;
    const isAsGood = (row: RunRow) => row.uncertainty?.metric === metric && row.uncertainty.behindBest.low <= 0;
    return {
      ...{ capacityTokens, best, reference, optimum },
      gain: reference && ratioOf(best) - ratioOf(reference),
      // Intervals are those of the gain over LRU.
      isGainNoise: interval && best !== reference && !pinned ? interval.low <= 0 && interval.high >= 0 : undefined,
      savedTokens: reference && best.hitTokens - reference.hitTokens,
      doubled: twice < 0 ? undefined : { best: bests[twice], gain: ratioOf(bests[twice]) - ratioOf(best) },
      gapClosed: best.gapClosed?.[metric],
      asGood: same.filter((row) => row !== best && isAsGood(row)),
      perGiB: next && (ratioOf(next) - ratioOf(best)) / grownGiB,
    };
  });
}

/** Whether two sizes differ by less than a hundredth: shares of the distinct blocks are rounded. */
const isAbout = (size: number, other: number) => Math.abs(size - other) < other / 100;

/** The best system at one offered rate of a workload with a clock. */
export interface RateAnswer {
  /** Requests per second; undefined: as in the trace. */
  readonly rate: number | undefined;
  readonly best: RunRow;
  /** The run of the reference at this rate; undefined: none was run. */
  readonly reference: RunRow | undefined;
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
  const pinned = pinnedIn(timed);
  const worse = (a: RunRow, b: RunRow) =>
    (b.goodputRequestsPerS ?? 0) - (a.goodputRequestsPerS ?? 0) ||
    (a.refused ?? 0) - (b.refused ?? 0) ||
    (a.ttftMsP99 ?? Number.POSITIVE_INFINITY) - (b.ttftMsP99 ?? Number.POSITIVE_INFINITY);
  return rates.map((rate) => {
    const runs = timed.filter((row) => rateOf(row) === rate).sort(worse);
    const [best] = runs;
    const withSlo = runs.filter(({ sloAttained }) => sloAttained !== undefined);
    const meeting = withSlo.filter(({ sloAttained, refused }) => sloAttained! >= sloShare && refused === undefined);
    const isReference = (row: RunRow) => row.blocks === best.blocks && isReferenceOf(row, best, pinned);
    return {
      ...{ rate, best, runs },
      reference: runs.find(isReference),
      meeting: withSlo.length > 0 ? meeting : undefined,
    };
  });
}
