import { grouped } from "../../../core/counted.ts";
import type { ContentStatistics } from "../../../traces/stats/content-statistics.ts";
import type { TraceStatistics } from "../../../traces/stats/stats.ts";
import type { ValueCounts } from "../../../traces/stats/value-counts.ts";
import { type Axis, type Chart, chartSvg, type Point } from "./chart.ts";

/** A plot of a trace: the name of its file and the SVG document. */
export interface TracePlot {
  readonly file: string;
  readonly svg: string;
}

/** The plots of a trace. Those of content are left out for a trace of lengths. */
export function tracePlots(name: string, statistics: TraceStatistics): TracePlot[] {
  const { content } = statistics;
  const charts: Record<string, Chart> = {
    arrivals: arrivals(name, statistics),
    lengths: lengths(name, statistics),
    ...(content && {
      "reuse-distance": reuseDistance(name, content),
      popularity: popularity(name, content),
      "sharing-depth": sharingDepth(name, statistics, content),
      "working-set": workingSet(name, statistics, content),
    }),
  };
  return Object.entries(charts).map(([plot, chart]) => ({ file: `${plot}.svg`, svg: chartSvg(chart) }));
}

const share = (value: number) => `${Number((100 * value).toPrecision(3))} %`;

/** The time axis in the unit that gives few digits. */
function timeAxis(seconds: number): { axis: Axis; perUnit: number } {
  const [perUnit, unit] =
    seconds > 3 * 86_400 ? [86_400, "days"] : seconds > 3 * 3600 ? [3600, "hours"] : [1, "seconds"];
  const axis: Axis = {
    label: `time since the first request, ${unit}`,
    scale: "linear",
    domain: [0, seconds / perUnit],
  };
  return { axis, perUnit };
}

/** One point per interval, at its beginning, and one at the end. */
function overTime(values: Float64Array, binS: number, perUnit: number): Point[] {
  const points = Array.from(values, (value, bin): Point => [(bin * binS) / perUnit, value]);
  return [...points, [(values.length * binS) / perUnit, values[values.length - 1]]];
}

function arrivals(name: string, { timeline, inputLengths }: TraceStatistics): Chart {
  let { binS, requests } = timeline.counts();
  // Intervals of eight requests or more on average, so that the rate shows and not single requests.
  for (; requests.length > Math.max(16, inputLengths.total / 8); binS *= 2) requests = pairSums(requests);
  const { axis, perUnit } = timeAxis(requests.length * binS);
  const rates = requests.map((count) => count / binS);
  return {
    title: `Arrivals: ${name}`,
    subtitle: `${grouped(inputLengths.total)} requests in intervals of ${intervalText(binS)}`,
    x: axis,
    y: { label: "requests per second", scale: "linear", domain: [0, 1.05 * rates.reduce((a, b) => Math.max(a, b), 0)] },
    curves: [{ label: "requests per second", points: overTime(rates, binS, perUnit), shape: "filled steps" }],
  };
}

const pairSums = (values: Float64Array) =>
  Float64Array.from({ length: Math.ceil(values.length / 2) }, (_, i) => values[2 * i] + (values[2 * i + 1] ?? 0));

/** Intervals per doubling of the length. */
const perDoubling = 4;

/** The share of requests in each interval of lengths; intervals grow with the length. */
function histogram(lengths: ValueCounts): Point[] {
  const shares = new Map<number, number>();
  const indexOf = (tokens: number) => Math.floor(perDoubling * Math.log2(Math.max(1, tokens)));
  for (const [tokens, count] of lengths.entries())
    shares.set(indexOf(tokens), (shares.get(indexOf(tokens)) ?? 0) + count / lengths.total);
  const indices = [...shares.keys()];
  const [first, last] = [indices[0], indices[indices.length - 1]];
  return Array.from({ length: last - first + 3 }, (_, i): Point => {
    const index = first - 1 + i;
    return [Math.max(1, 2 ** (index / perDoubling)), shares.get(index) ?? 0];
  });
}

function lengths(name: string, { inputLengths, outputLengths }: TraceStatistics): Chart {
  const curves = [
    { label: "prompt", points: histogram(inputLengths) },
    { label: "output", points: histogram(outputLengths) },
  ];
  const all = curves.flatMap(({ points }) => points);
  const most = all.reduce((largest, [, value]) => Math.max(largest, value), 0);
  return {
    title: `Lengths: ${name}`,
    subtitle: `share of requests by length; ${perDoubling} intervals for each doubling of the length`,
    x: {
      label: "length, tokens",
      scale: "log",
      domain: logDomain(
        1,
        all.reduce((a, [x]) => Math.max(a, x), 1),
      ),
    },
    y: { label: "share of requests", scale: "linear", domain: [0, 1.05 * most], tick: share },
    curves: curves.map((curve) => ({ ...curve, shape: "steps" as const })),
  };
}

const logDomain = (least: number, most: number): [number, number] => [least, Math.max(most, 10 * least)];

function reuseDistance(name: string, { distances, references, distinct }: ContentStatistics): Chart {
  const points: Point[] = [[1, 0]];
  let hits = 0;
  let next = 1;
  for (let distance = 0; distance < Math.max(1, distinct); distance++) {
    hits += distances.counts[distance];
    // A cache of distance + 1 blocks; about forty points for each factor of ten.
    if (distance + 1 < next && distance + 1 < distinct) continue;
    points.push([distance + 1, hits / references]);
    next = (distance + 1) * 1.06;
  }
  const unlimited = points[points.length - 1][1];
  return {
    title: `Reuse distance: ${name}`,
    subtitle: "share of block references whose block was used not more than this many different blocks ago",
    x: {
      label: "different blocks since the last use, or size of an LRU cache in blocks",
      scale: "log",
      domain: logDomain(1, distinct),
    },
    y: { label: "share of block references", scale: "linear", domain: [0, 1], tick: share },
    curves: [
      { label: "LRU of this size", points, shape: "line" },
      {
        label: `unlimited cache (${share(unlimited)})`,
        points: [
          [1, unlimited],
          [logDomain(1, distinct)[1], unlimited],
        ],
        shape: "line",
      },
    ],
  };
}

function popularity(name: string, { requestsOf, distinct }: ContentStatistics): Chart {
  const counts = requestsOf.slice().sort().reverse().subarray(0, distinct);
  const points: Point[] = [];
  for (let rank = 1; rank <= distinct; rank = Math.max(rank + 1, Math.floor(rank * 1.04)))
    points.push([rank, counts[rank - 1]]);
  if (distinct > 0) points.push([distinct, counts[distinct - 1]]);
  return {
    title: `Popularity: ${name}`,
    subtitle: `${grouped(distinct)} distinct blocks by the number of requests that contain them`,
    x: { label: "rank of the block", scale: "log", domain: logDomain(1, distinct) },
    y: { label: "requests that contain the block", scale: "log", domain: logDomain(1, counts[0] ?? 1) },
    curves: [{ label: "blocks", points, shape: "line" }],
  };
}

function sharingDepth(name: string, { inputLengths }: TraceStatistics, { repeatedPrefixes }: ContentStatistics): Chart {
  const most = inputLengths.entries().at(-1)![0];
  const repeated =
    1 - (repeatedPrefixes.entries()[0][0] === 0 ? repeatedPrefixes.entries()[0][1] / repeatedPrefixes.total : 0);
  return {
    title: `Sharing depth: ${name}`,
    subtitle: `${share(repeated)} of the requests begin with blocks that an earlier request had`,
    x: { label: "tokens", scale: "log", domain: logDomain(1, most) },
    y: { label: "share of requests", scale: "linear", domain: [0, 1], tick: share },
    curves: [
      { label: "prompts longer than this", points: survival(inputLengths, most), shape: "steps" },
      {
        label: "prompts whose repeated prefix is longer than this",
        points: survival(repeatedPrefixes, most),
        shape: "steps",
      },
    ],
  };
}

/** The share of values above x, for each x; it holds up to the next x. */
function survival(values: ValueCounts, most: number): Point[] {
  const points: Point[] = [];
  let left = values.total;
  let next = 1;
  for (const [value, count] of values.entries()) {
    left -= count;
    if (value < next && points.length > 0) continue;
    points.push([Math.max(1, value), left / values.total]);
    next = value * 1.02;
  }
  const first: Point[] = points.length > 0 && points[0][0] > 1 ? [[1, 1]] : [];
  return [...first, ...points, [most, 0]];
}

function workingSet(name: string, { timeline }: TraceStatistics, { distinct }: ContentStatistics): Chart {
  const { binS, requests, workingSets } = timeline.counts();
  const { axis, perUnit } = timeAxis(requests.length * binS);
  const all = workingSets.length - 1;
  const shown = [
    all,
    ...[all - 2, all - 4, all - 6].filter((window) => workingSets[window].windowS < requests.length * binS),
  ];
  return {
    title: `Working set: ${name}`,
    subtitle: "different blocks that prompts contained within the last interval of time",
    x: axis,
    y: { label: "blocks", scale: "linear", domain: [0, 1.05 * distinct] },
    curves: shown.map((window) => ({
      label: window === all ? "since the beginning" : `last ${intervalText(workingSets[window].windowS)}`,
      points: overTime(workingSets[window].keys, binS, perUnit),
      shape: "steps",
    })),
  };
}

/** 64 s, 17 min, 4.6 h. */
function intervalText(seconds: number): string {
  if (seconds < 1) return `${Number((1000 * seconds).toPrecision(3))} ms`;
  if (seconds < 300) return `${seconds} s`;
  return seconds < 3 * 3600 ? `${Math.round(seconds / 60)} min` : `${Number((seconds / 3600).toPrecision(2))} h`;
}
