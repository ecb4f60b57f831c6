import { counted, grouped } from "../../core/counted.ts";
import { curveBands } from "../../lab/curve/curve-bands.ts";
import type { CurveBand, CurvePoint } from "../../lab/curve/curve-document.ts";
import type { Curves } from "../../lab/curve/curves.ts";
import type { Metric } from "../../lab/output/hit-ratios.ts";
import { approximate, percent, ratio } from "../../lab/output/numbers.ts";
import { ratioMeanings } from "../output/summary.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

/** Estimates of sizes below this many times the common content are biased (docs/curve.md). */
const biasedBelow = 10;

/** A row for each size of the cache, a column for each curve or band. */
export function curveTable({ report, name }: Curves): string {
  const { trace, blockTokens, distinctBlocks, metric, curves, sample } = report;
  const bands = curveBands(report);
  const built = trace.files.length === 0 ? " (built-in)" : "";
  const heading = wrapped(
    `${colors.bold(name)}${built}: ${counted(trace.requests, "request")}, ${approximate(trace.inputTokens)} prompt tokens, ` +
      `${counted(distinctBlocks, "distinct block")} of ${counted(blockTokens, "token")}`,
    0,
  );
  const headers = headersOf(bands).map((cells) => ["", "", ...cells]);
  headers[headers.length - 1].splice(0, 2, "blocks", "share");
  const rows = curves[0].points.map(({ blocks }, i) => [
    grouped(blocks),
    shareText(blocks / distinctBlocks),
    ...bands.map(({ curves: [first], over, points }) =>
      over.length > 0 ? bandText(points[i]) : valueText(curves[first].points[i], metric, sample !== undefined),
    ),
  ]);
  const bold = headers.map((cells) => cells.map((cell) => colors.bold(cell)));
  const table = aligned([...bold, ...rows], "r".repeat(2 + bands.length));
  return [heading, table, meaning(report, bands), ...refusals(report)].join("\n\n");
}

/** The names in which curves differ, one row for each kind of name. */
function headersOf(bands: readonly CurveBand[]): string[][] {
  const names = [
    ({ preset = "" }: CurveBand) => preset,
    ({ index }: CurveBand) => index,
    ({ rules }: CurveBand) => rules.join(" "),
    ({ eviction }: CurveBand) => eviction,
  ];
  const isShown = (of: (band: CurveBand) => string, i: number) => i === 3 || new Set(bands.map(of)).size > 1;
  return names.filter(isShown).map((of) => bands.map(of));
}

const bandText = ({ low, high }: CurveBand["points"][number]) =>
  ratio(low) === ratio(high) ? ratio(low) : `${ratio(low)}–${ratio(high)}`;

/** The value; of a sample with half the length of its interval. */
function valueText({ hitRatio, low, high }: CurvePoint, metric: Metric, isSampled: boolean): string {
  return isSampled ? `${ratio(hitRatio[metric]!)} ± ${ratio((high - low) / 2)}` : ratio(hitRatio[metric]!);
}

const shareText = (share: number) => `${Number((share * 100).toPrecision(3))} %`;

function meaning({ metric, curves, sample }: Curves["report"], bands: readonly CurveBand[]): string {
  const lines = [
    `Values are the hit ratio "${metric}": ${metric === "token" ? "cached prefix tokens ÷ prompt tokens" : ratioMeanings[metric]}; the miss ratio is 1 less it. "share" is that of the distinct blocks.`,
  ];
  const over = bandMeaning(bands, sample !== undefined);
  if (over !== undefined) lines.push(over);
  if (sample)
    lines.push(
      `Estimated from ${counted(sample.requests, "request")} in ${grouped(sample.groups)} of ${counted(sample.ofGroups, "group")} with shared content, in caches of ${percent(sample.tokenShare)} of the size; ± is an interval of 95 %.`,
    );
  if (curves.some(({ method }) => method === "bound")) lines.push("bound: no eviction policy exceeds it.");
  return lines.map((line) => wrapped(line, 0)).join("\n");
}

/** Over what the values of a column are a band. */
function bandMeaning(bands: readonly CurveBand[], isSampled: boolean): string | undefined {
  const over = new Set(bands.flatMap((band) => band.over));
  if (over.size === 0) return undefined;
  const axes = [
    ...(over.has("free-order") ? ["both values of free-order"] : []),
    ...(over.has("seed") ? ["all seeds"] : []),
  ];
  return `low–high: the lowest and the highest hit ratio over ${axes.join(" and ")}${isSampled ? ", with their intervals" : ""}.`;
}

/** Sizes at which requests were refused, or whose estimates are biased. */
function refusals({ curves, sample }: Curves["report"]): string[] {
  const refusing = curves[0].points.filter(({ refusedRequests = 0 }) => refusedRequests > 0);
  const [most, last] = [refusing[0], refusing[refusing.length - 1]];
  if (sample) {
    const near = curves[0].points.filter(({ blocks }) => blocks < biasedBelow * sample.commonBlocks);
    const reasons = [
      ...(near.length > 0
        ? [`content of ${counted(sample.commonBlocks, "block")} is common to many requests and not scaled`]
        : []),
      ...(last ? ["the smaller cache of the sample refuses requests"] : []),
    ];
    const largest = Math.max(...[...near, ...refusing].map(({ blocks }) => blocks));
    if (reasons.length === 0) return [];
    const biased = `Estimates at sizes of up to ${counted(largest, "block")} may be biased by more than their interval: ${reasons.join("; ")}.`;
    return [colors.yellow(wrapped(biased, 0))];
  }
  if (most === undefined) return [];
  const text =
    `Caches of up to ${counted(last.blocks, "block")} are smaller than some requests, which they refuse: ` +
    `${counted(last.refusedRequests!, "request")} at ${grouped(last.blocks)}, ${grouped(most.refusedRequests!)} at ${grouped(most.blocks)}.`;
  return [colors.yellow(wrapped(text, 0))];
}
