import { counted, grouped } from "../../core/counted.ts";
import { approximate, percent, ratio } from "../../lab/output/numbers.ts";
import type { DescribedTrace } from "../../lab/traces/trace-stats.ts";
import type { TraceStats } from "../../traces/stats/stats.ts";
import type { Spread } from "../../traces/stats/value-counts.ts";
import { aligned, colors } from "../output/table.ts";

/** Statistics of a trace as text. */
export function statsText({ report, name, stats, plots }: DescribedTrace): string {
  const { format, files } = report;
  const made = files.length === 0 ? "built-in example, generated" : format;
  const { content } = stats;
  return [
    `${colors.bold(name)} (${made}): ${counted(stats.requests, "request")}\n${summary(stats)}`,
    `${colors.bold("Tokens")}\n${lengths(stats)}`,
    `${colors.bold("Arrivals")}\n${arrivals(stats)}`,
    ...(content ? [`${colors.bold("Sharing")}\n${sharing(content)}`] : []),
    ...(content && content.sharedPrefixes.length > 0
      ? [`${colors.bold("Prefixes that most requests begin with")}\n${prefixes(stats, content)}`]
      : []),
    ...(plots.length > 0 ? [plotsText(plots, content !== undefined)] : []),
  ].join("\n\n");
}

/** Rate, span, unit and sharing: a trace that was read in a wrong unit shows here. */
function summary({ requestsPerSMean, durationS, unitTokens, content }: TraceStats): string {
  const rate = requestsPerSMean === undefined ? "all at once" : `${requestsPerSMean.toPrecision(3)} requests a second`;
  const unit = unitTokens === 1 ? "token ids" : `content ids of ${counted(unitTokens, "token")}`;
  return aligned(
    [
      ["rate", rate],
      ["span", spanText(durationS)],
      ["unit", content ? unit : "lengths only, no content"],
      ["sharing", content ? `${percent(content.repeatedShare)} of the blocks were seen before` : "unknown"],
    ],
    "ll",
  );
}

/** 3,537 s (58.9 min). */
function spanText(seconds: number): string {
  const exact = `${approximate(seconds)} s`;
  for (const [size, unit] of [
    [86_400, "days"],
    [3600, "h"],
    [60, "min"],
  ] as const)
    if (seconds >= 2 * size) return `${exact} (${Number((seconds / size).toPrecision(3))} ${unit})`;
  return exact;
}

function plotsText(plots: readonly string[], hasContent: boolean): string {
  const missing = hasContent
    ? ""
    : "\nThe trace has no content: plots of reuse, popularity, sharing and the working set are left out.";
  return `${colors.bold("Plots")}\n${plots.map((file) => `  ${file}`).join("\n")}${missing}`;
}

const spreadHeader = ["mean", "p50", "p90", "p99", "max"];
const spreadCells = ({ mean, p50, p90, p99, max }: Spread) => [
  mean >= 100 ? grouped(mean) : mean.toFixed(1),
  ...[p50, p90, p99, max].map(grouped),
];

function lengths(stats: TraceStats): string {
  const rows = [
    ["", "total", ...spreadHeader].map((cell) => colors.dim(cell)),
    ["prompt", grouped(stats.inputTokens), ...spreadCells(stats.inputLength)],
    ["output", grouped(stats.outputTokens), ...spreadCells(stats.outputLength)],
  ];
  return aligned(rows, "lrrrrrr");
}

function arrivals({ requestsPerSPeak, sessions }: TraceStats): string {
  const rows = [["peak", `${counted(requestsPerSPeak, "request")} in one second`]];
  if (sessions) {
    const { mean: turns, p50, max } = sessions.turns;
    const spread = `${turns.toFixed(1)} requests each (median ${grouped(p50)}, most ${grouped(max)})`;
    rows.push(["sessions", `${grouped(sessions.count)}, ${spread}`]);
  }
  return aligned(rows, "ll");
}

type Content = NonNullable<TraceStats["content"]>;

function sharing(content: Content): string {
  const { blockTokens, blockReferences, distinctBlocks, repeatedShare, reuseDistanceBlocks: distance } = content;
  const { p50, p90, p99, max } = content.repeatedPrefixTokens;
  const rows = [
    ["blocks", `${grouped(blockReferences)} references of ${blockTokens} tokens, ${grouped(distinctBlocks)} distinct`],
    ["repeated", `${ratio(repeatedShare)} of them: the block hit ratio of an unlimited cache`],
    [
      "depth",
      `${grouped(p50)} tokens of a prompt (median), ${grouped(p90)} (p90), ${grouped(p99)} (p99), ${grouped(max)} (most)`,
    ],
  ];
  if (distance) {
    const { p50, p90, max } = distance;
    rows.push(["reuse", `after ${grouped(p50)} other blocks (median), ${grouped(p90)} (p90), ${grouped(max)} (most)`]);
  }
  return aligned(rows, "ll");
}

function prefixes({ requests: all }: TraceStats, { sharedPrefixes }: Content): string {
  const rows = sharedPrefixes.map(({ requests, tokens }) => [
    grouped(requests),
    percent(requests / all),
    grouped(tokens),
  ]);
  return aligned([["requests", "share", "tokens"].map((cell) => colors.dim(cell)), ...rows], "rrr");
}
