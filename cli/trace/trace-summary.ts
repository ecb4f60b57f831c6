import { counted, grouped } from "../../core/counted.ts";
import type { Input } from "../../lab/input.ts";
import { approximate, percent, ratio } from "../../lab/output/numbers.ts";
import type { Spread, TraceStats } from "../../traces/stats.ts";
import { aligned, colors } from "../output/table.ts";

/** Statistics of a trace as text. */
export function statsText(input: Input, stats: TraceStats): string {
  const { format, files, name } = input;
  const made = files.length === 0 ? "built-in example, generated" : format;
  return [
    `${colors.bold(name)} (${made}): ${counted(stats.requests, "request")}`,
    `${colors.bold("Tokens")}\n${lengths(stats)}`,
    `${colors.bold("Arrivals")}\n${arrivals(stats)}`,
    ...(stats.content ? [`${colors.bold("Sharing")}\n${sharing(stats.content)}`] : []),
    ...(stats.content && stats.content.sharedPrefixes.length > 0
      ? [`${colors.bold("Prefixes that most requests begin with")}\n${prefixes(stats, stats.content)}`]
      : []),
  ].join("\n\n");
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

function arrivals({ durationS, requestsPerSMean, requestsPerSPeak, sessions }: TraceStats): string {
  const mean = requestsPerSMean === undefined ? "all at once" : `${requestsPerSMean.toPrecision(3)} requests a second`;
  const rows = [
    ["over", `${approximate(durationS)} s`],
    ["mean", mean],
    ["peak", `${counted(requestsPerSPeak, "request")} in one second`],
  ];
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
  const rows = [
    ["blocks", `${grouped(blockReferences)} references of ${blockTokens} tokens, ${grouped(distinctBlocks)} distinct`],
    ["repeated", `${ratio(repeatedShare)} of them: the block hit ratio of an unlimited cache`],
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
