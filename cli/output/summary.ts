import { counted, grouped } from "../../core/counted.ts";
import { type MissReason, missReasons } from "../../core/log/miss-reasons.ts";
import { type RuleName, resolveRules, ruleNames } from "../../core/plugins/rules.ts";
import type { TimeSeries } from "../../core/serving/time-series.ts";
import { approximate, milliseconds, percent, ratio } from "../../lab/output/numbers.ts";
import type { RunReport } from "../../lab/output/report.ts";
import { explanationTexts } from "./explanation.ts";
import { overTime } from "./over-time.ts";
import { residencyText } from "./residency.ts";
import { engineRows, simulationSummary } from "./simulation-summary.ts";
import { aligned, colors, lineWidth, shareBar, wrapped } from "./table.ts";

/** The definition of each hit ratio. */
export const ratioMeanings: Readonly<Record<keyof RunReport["cache"]["hitRatio"], string>> = {
  block: "cached prefix blocks ÷ prompt blocks",
  token: "cached prefix tokens ÷ prompt tokens",
  requestMeanBlock: "mean of the requests' block ratios",
  requestMeanToken: "mean of the requests' token ratios",
  fullBlock: "block ratio without partial last blocks",
  anyResidentBlock: "cached blocks, also past a hole",
};

const missMeanings: Readonly<Record<MissReason, string>> = {
  "never-seen": "not computed before",
  evicted: "computed before and evicted since",
  "past-hole": "cached, but after a missing block",
  "shorter-than-block": "in an incomplete block",
  "other-namespace": "cached in another namespace",
  "not-yet-computed": "being computed by another request",
  "match-limit": "not allowed by the rules",
};

/** Facts about a run that are not in its report. */
export interface SummaryFacts {
  readonly traceName: string;
  readonly distinctBlocks: number;
  /** The capacity is the default. */
  readonly isDefaultSize: boolean;
  /** The folder of the saved run. */
  readonly directory: string | undefined;
  readonly repeat: number | undefined;
  /** The preset's default block size. */
  readonly presetBlockTokens: number | undefined;
  /** The preset's rules that are not in effect, because another plug-in was chosen. */
  readonly rulesNotApplied: readonly string[];
  /** Metrics over time of a simulation. */
  readonly series?: TimeSeries | undefined;
  /** The trace has lengths only, so that no content can be found again. */
  readonly lengthsOnly?: boolean | undefined;
  /** The file of the timeline. */
  readonly timeline?: string | undefined;
}

/** A run as text: configuration, hit ratios, misses and speed. */
export function summary(report: RunReport, facts: SummaryFacts): string {
  const { refusedRequests, lookups } = report.cache;
  const served = refusedRequests === lookups || facts.lengthsOnly ? [] : [misses(report)];
  return [
    configuration(report, facts),
    ...simulationSummary(report),
    ...(facts.series ? [overTime(facts.series)] : []),
    facts.lengthsOnly ? noRatios : ratios(report),
    ...served,
    ...fragmentationOf(report),
    ...refusals(report),
    ...operations(report),
    ...(report.residency ? [residencyText(report.residency)] : []),
    ...(report.explain ? explanationTexts(report.explain, report.cache.missTokens.evicted) : []),
    speed(report, facts),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

function configuration(
  report: RunReport,
  { traceName, distinctBlocks, isDefaultSize, presetBlockTokens, rulesNotApplied }: SummaryFacts,
): string {
  const { trace, policy, warmup } = report;
  const { index, eviction, allocator, scheduler, blocks, blockTokens } = policy;
  const built = trace.files.length === 0 ? " (the built-in example: generated chat)" : "";
  const times = (blocks ?? 0) / distinctBlocks;
  const each = (report.simulation?.replicas ?? 1) > 1 ? " on each replica" : "";
  const share = distinctBlocks === 0 ? "" : `, ${times > 1 ? `${approximate(times)} times` : `${percent(times)} of`}`;
  const distinct =
    distinctBlocks === 0 ? "; no prompt fills one" : ` the trace's ${grouped(distinctBlocks)} distinct ones`;
  const capacity =
    blocks === null
      ? `unlimited; the trace has ${counted(distinctBlocks, "distinct block")}`
      : `${counted(blocks, "block")}${each}${share}${distinct}${isDefaultSize ? " (the default; --blocks changes it)" : ""}`;
  const preset = policy.preset === null ? "" : `${colors.bold(policy.preset)}: `;
  const presetSize =
    presetBlockTokens === undefined || presetBlockTokens === blockTokens
      ? ""
      : ` (${policy.preset}'s default: ${presetBlockTokens})`;
  const changed = changedRules(policy.rules);
  const rows: [string, string][] = [
    [
      "trace",
      `${colors.bold(traceName)}${built}: ${counted(trace.requests, "request")}, ${approximate(trace.inputTokens)} prompt tokens` +
        (warmup > 0 ? `; the first ${grouped(warmup)} requests are warm-up and not measured` : ""),
    ],
    ...interruption(report),
    ["policy", `${preset}${colors.bold(`${index} + ${eviction}`)}, allocator ${allocator}, scheduler ${scheduler}`],
    ["cache", `${capacity}; ${counted(blockTokens, "token")} a block${presetSize}`],
    ...engineRows(report),
    ...(changed ? ([["rules", changed]] as [string, string][]) : []),
    ...(rulesNotApplied.length > 0
      ? ([["without", `${rulesNotApplied.join(", ")} of ${policy.preset}`]] as [string, string][])
      : []),
  ];
  return rows.map(([name, text]) => `  ${name.padEnd(8)}${wrapped(text, 10, 10)}`).join("\n");
}

function interruption({ interrupted }: RunReport): [string, string][] {
  if (!interrupted) return [];
  const finished = `${counted(interrupted.requestsDone, "request")} that had finished`;
  return [["partial", colors.yellow(`interrupted: metrics cover the ${finished}`)]];
}

function changedRules(rules: RunReport["policy"]["rules"]): string {
  const defaults = resolveRules();
  return ruleNames
    .filter((name: RuleName) => rules[name] !== defaults[name])
    .map((name) => `${name}=${rules[name]}`)
    .join(", ");
}

const noRatios = `${colors.bold("Hit ratio")}\n  not applicable: the trace has lengths only`;

function ratios({ cache }: RunReport): string {
  const names = Object.keys(cache.hitRatio) as (keyof typeof cache.hitRatio)[];
  const rows = names.map((name) => {
    const value = ratio(cache.hitRatio[name]);
    return [name, name === "block" ? colors.bold(value) : value, colors.dim(ratioMeanings[name])];
  });
  return `${colors.bold("Hit ratio")}\n${aligned(rows, "lrl")}`;
}

const mostBarWidth = 16;

function misses({ cache }: RunReport): string {
  const missed = cache.lookupTokens - cache.hitTokens - cache.refusedTokens;
  if (missed === 0) return "No token was missed.";
  const reasons = missReasons.filter((reason) => cache.missTokens[reason] > 0);
  const widest = (texts: readonly string[]) => Math.max(...texts.map(({ length }) => length));
  const counts = reasons.map((reason) => grouped(cache.missTokens[reason]));
  const others = widest(reasons) + widest(counts) + widest(reasons.map((reason) => missMeanings[reason]));
  const barWidth = Math.min(mostBarWidth, lineWidth - others - "  ".length * 5 - "99.9 %".length);
  const rows = reasons.map((reason, i) => {
    const share = cache.missTokens[reason] / missed;
    const bar = colors.cyan(shareBar(share, barWidth));
    return [reason, counts[i], percent(share), bar, colors.dim(missMeanings[reason])];
  });
  return `${colors.bold(`Why ${grouped(missed)} prompt tokens had to be computed`)}\n${aligned(rows, "lrrll")}`;
}

/** Fragmentation of allocations and of free blocks, if the allocator measures it. */
function fragmentationOf({ cache: { fragmentation }, warmup }: RunReport): string[] {
  if (fragmentation === null || fragmentation.allocations === 0) return [];
  const { runs, allocations, largestFreeRun } = fragmentation;
  const text =
    `${(runs / allocations).toFixed(1)} runs per allocation, largest free run ${counted(largestFreeRun, "block")}` +
    (warmup > 0 ? " (with warm-up)" : "");
  return [`  fragmentation  ${wrapped(text, 17, 17)}`];
}

function refusals({ cache, policy, refusals: reasons }: RunReport): string[] {
  const { refusedRequests, lookups } = cache;
  if (refusedRequests === 0) return [];
  const all = Object.entries(reasons ?? {});
  const [only] = all;
  const why =
    reasons === undefined
      ? `because they are longer than the cache of ${counted(policy.blocks ?? 0, "block")}`
      : all.length === 1
        ? `${only[1] === 1 ? "" : "each "}because ${only[0]}`
        : all.map(([reason, count]) => `${grouped(count)} because ${reason}`).join("; ");
  const text =
    `${grouped(refusedRequests)} of ${counted(lookups, "request")} were refused, ${why}. ` +
    (reasons === undefined ? "They" : "Requests that never ran") +
    " count as lookups without a hit.";
  return [colors.yellow(wrapped(text, 0))];
}

function speed(report: RunReport, facts: SummaryFacts): string {
  const { engine, wallMs, blockRefsPerS, throughput, trace, interrupted } = report;
  const requests = interrupted?.requestsDone ?? trace.requests;
  const { directory, repeat, timeline } = facts;
  const times = repeat === undefined ? "" : ` (median of ${repeat})`;
  const rate = blockRefsPerS === 0 ? "" : `: ${approximate(blockRefsPerS)} block references a second`;
  const replayed =
    throughput === null
      ? `Replayed in ${milliseconds(wallMs)}${times}${rate}.`
      : `${engine ? "Served" : "Simulated"} ${approximate(throughput.makespanS)} s in ${milliseconds(wallMs)}${times}: ` +
        `${approximate(Math.round(requests / (wallMs / 1000)))} requests a second.`;
  const seen = timeline === undefined ? [] : [`Timeline in ${timeline}: open it in ui.perfetto.dev`];
  return [replayed, ...seen, ...(directory === undefined ? [] : [`Saved in ${directory}`])].join("\n");
}

/** The result of each operation. */
function operations({ operations: all }: RunReport): string[] {
  if (all === undefined) return [];
  const rows = all.map(({ before, operation, like, tokens, name, result }) => {
    const prefix =
      like === undefined ? "" : `${tokens === undefined ? "all" : counted(tokens, "token")} of request ${like}`;
    return [`before ${grouped(before)}`, operation, name ?? "", prefix, result];
  });
  return [`${colors.bold("Operations")}\n${aligned(rows, "lllll")}`];
}
