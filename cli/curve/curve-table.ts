import { counted, grouped } from "../../core/counted.ts";
import type { Curve, CurvePoint } from "../../lab/curve/curve-document.ts";
import type { Curves } from "../../lab/curve/curves.ts";
import type { Metric } from "../../lab/output/hit-ratios.ts";
import { approximate, percent, ratio } from "../../lab/output/numbers.ts";
import { ratioMeanings } from "../output/summary.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

/** A row for each size of the cache, a column for each curve. */
export function curveTable({ report, name }: Curves): string {
  const { trace, blockTokens, distinctBlocks, metric, curves } = report;
  const built = trace.files.length === 0 ? " (built-in)" : "";
  const heading = wrapped(
    `${colors.bold(name)}${built}: ${counted(trace.requests, "request")}, ${approximate(trace.inputTokens)} prompt tokens, ` +
      `${counted(distinctBlocks, "distinct block")} of ${counted(blockTokens, "token")}`,
    0,
  );
  const headers = headersOf(curves).map((cells) => ["", "", ...cells]);
  headers[headers.length - 1].splice(0, 2, "blocks", "share");
  const rows = curves[0].points.map(({ blocks }, i) => [
    grouped(blocks),
    shareText(blocks / distinctBlocks),
    ...curves.map(({ points }) => valueText(points[i], metric, report.sample !== undefined)),
  ]);
  const bold = headers.map((cells) => cells.map((cell) => colors.bold(cell)));
  const table = aligned([...bold, ...rows], "r".repeat(2 + curves.length));
  return [heading, table, meaning(report), ...refusals(curves, report.sample !== undefined)].join("\n\n");
}

/** The names in which curves differ, one row for each kind of name. */
function headersOf(curves: readonly Curve[]): string[][] {
  const names = [
    (curve: Curve) => curve.index,
    (curve: Curve) => curve.rules.join(" "),
    (curve: Curve) => curve.eviction,
  ];
  const isShown = (of: (curve: Curve) => string, i: number) => i === 2 || new Set(curves.map(of)).size > 1;
  return names.filter(isShown).map((of) => curves.map(of));
}

/** The value; of a sample with half the length of its interval. */
function valueText({ hitRatio, low, high }: CurvePoint, metric: Metric, isSampled: boolean): string {
  return isSampled ? `${ratio(hitRatio[metric]!)} ± ${ratio((high - low) / 2)}` : ratio(hitRatio[metric]!);
}

const shareText = (share: number) => `${Number((share * 100).toPrecision(3))} %`;

function meaning({ metric, curves, sample }: Curves["report"]): string {
  const lines = [
    `Values are the hit ratio "${metric}": ${metric === "token" ? "cached prefix tokens ÷ prompt tokens" : ratioMeanings[metric]}; the miss ratio is 1 less it. "share" is that of the distinct blocks.`,
  ];
  if (sample)
    lines.push(
      `Estimated from ${counted(sample.requests, "request")} in ${grouped(sample.groups)} of ${counted(sample.ofGroups, "group")} with shared content, in caches of ${percent(sample.tokenShare)} of the size; ± is an interval of 95 %, without the error of that scaling.`,
    );
  if (curves.some(({ method }) => method === "bound")) lines.push("bound: no eviction policy exceeds it.");
  return lines.map((line) => wrapped(line, 0)).join("\n");
}

/** The largest size at which requests were refused. */
function refusals(curves: readonly Curve[], isSampled: boolean): string[] {
  const refusing = curves[0].points.filter(({ refusedRequests = 0 }) => refusedRequests > 0);
  const [most, last] = [refusing[0], refusing[refusing.length - 1]];
  if (most === undefined || isSampled) return [];
  const text =
    `Caches of up to ${counted(last.blocks, "block")} are smaller than some requests, which they refuse: ` +
    `${counted(last.refusedRequests!, "request")} at ${grouped(last.blocks)}, ${grouped(most.refusedRequests!)} at ${grouped(most.blocks)}.`;
  return [colors.yellow(wrapped(text, 0))];
}
