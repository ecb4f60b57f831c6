import { counted, grouped } from "../../core/counted.ts";
import { rangeOf } from "../../lab/compare/band-document.ts";
import type { Row, ServedComparison } from "../../lab/compare/compare-served.ts";
import type { Range } from "../../lab/compare/comparison.ts";
import { groupsBy } from "../../lab/compare/served-bands.ts";
import { approximate, duration, percent, ratio } from "../../lab/output/numbers.ts";
import type { RunReport } from "../../lab/output/report.ts";
import { backendOf, deviceText } from "../../lab/run/target.ts";
import { limitNames, unsteadiness } from "../output/load-notes.ts";
import { aligned, colors, wrapped } from "../output/table.ts";
import { mergedRows } from "./merged-rows.ts";

/**
 * Two tables with a row for each timed run: the differing options with hit ratio, latency and throughput, and with the load that
 * was served. The best of each column is marked, among the rows that serve all requests.
 */
export function servedTable(input: ServedComparison["input"], runs: readonly Row[]): string {
  const names = columns.filter(({ of, always }) => always?.(runs) ?? differs(runs, of));
  const rows = groupsBy(runs.map(({ band }) => band)).map((members) => members.map((member) => runs[member]));
  return [
    wrapped(heading(input, runs[0].report), 0),
    metricTable(rows, names, performance),
    wrapped(performanceNote, 0),
    metricTable(rows, names, served),
    wrapped(servedNote, 0),
    ...(rows.some(({ length }) => length > 1) ? [wrapped(bandNote, 0)] : []),
    ...equalRows(rows, names),
    ...notes(rows).map((note) => colors.yellow(wrapped(note, 0))),
  ].join("\n\n");
}

function heading(input: ServedComparison["input"], { simulation, engine, trace, target }: RunReport): string {
  const where = simulation
    ? `${simulation.model} on ${simulation.gpu}`
    : `${engine!.model} on ${deviceText(backendOf(target), engine!.threads)}`;
  return (
    `${colors.bold(input.name)}${input.files.length === 0 ? " (built-in)" : ""}: ${counted(trace.requests, "request")}, ` +
    `${approximate(trace.inputTokens)} prompt tokens; ${where}`
  );
}

/** Runs that differ only in the seed, shown as one row. */
type SeedRuns = readonly Row[];

function metricTable(rows: readonly SeedRuns[], names: readonly NameColumn[], all: readonly MetricColumn[]): string {
  const shown = all.filter(({ of }) => rows.some((runs) => rangeIn(runs, of) !== undefined));
  const header = [...names.map(({ header }) => header), ...shown.map(({ header }) => `${header} `)];
  const complete = rows.filter(servesAll);
  // Of rows with several seeds, every one that overlaps with the best is marked.
  const best = shown.map(({ of, better }) => {
    const ranges = complete.flatMap((runs) => rangeIn(runs, of) ?? []);
    if (better === undefined) return undefined;
    return better === "more" ? Math.max(...ranges.map(({ low }) => low)) : Math.min(...ranges.map(({ high }) => high));
  });
  const cells = (runs: SeedRuns) =>
    shown.map(({ of, text, better }, i) => {
      const range = rangeIn(runs, of);
      if (range === undefined) return "– ";
      const [{ report }] = runs;
      const { low, high } = range;
      const texts = new Set(
        low === high ? runs.map((run) => text(low, run.report)) : [text(low, report), text(high, report)],
      );
      const cell = [...texts].join("–");
      const mark = best[i];
      if (mark === undefined || !servesAll(runs) || rows.length === 1) return `${cell} `;
      const own = better === "more" ? high : low;
      const isBest = text(own, report) === text(mark, report) || (better === "more" ? own > mark : own < mark);
      return isBest ? colors.bold(colors.green(`${cell}*`)) : `${cell} `;
    });
  const { rows: body } = mergedRows(rows.map((row) => ({ ...named(row, names), cells: cells(row) })));
  return aligned(
    [header.map((cell) => colors.bold(cell)), ...body],
    "l".repeat(names.length) + "r".repeat(shown.length),
  );
}

/** The least and largest value of the runs; undefined if none has one. */
function rangeIn(runs: SeedRuns, of: MetricColumn["of"]): Range | undefined {
  const values = runs.flatMap(({ report }) => of(report) ?? []);
  return values.length === 0 ? undefined : rangeOf(values);
}

/** The names of a row, and what is equal for rows with the same results. */
const named = (runs: SeedRuns, names: readonly NameColumn[]) => ({
  names: names.map(({ of }) => of(runs[0])),
  key: JSON.stringify(runs.map(({ report }) => [...performance, ...served].map(({ of }) => of(report)))),
});

/** The rows that the tables show as one. */
function equalRows(rows: readonly SeedRuns[], names: readonly NameColumn[]): string[] {
  const { equal } = mergedRows(rows.map((row) => ({ ...named(row, names), cells: [] })));
  return equal.length === 0 ? [] : [equal.map((text) => wrapped(text, 2)).join("\n")];
}

/** Latencies are those of the requests that were served: a row that refuses some is not comparable with one that serves all. */
const servesAll = (runs: SeedRuns) => runs.every(({ report: { cache } }) => cache.refusedRequests === 0);

const performanceNote =
  "hit ratio: cached prefix tokens ÷ prompt tokens. TTFT: arrival to first token; TPOT: per token after it; " +
  "latency: arrival to last token; requests/s: those that finish between the first and the last arrival, per second of it (of " +
  "the whole run if all arrive at once). * marks the best of the rows that serve all requests.";

const servedNote =
  "drain: last arrival to last token; goodput: served requests, within the SLO if one is given, per second of the whole run; " +
  "limit: why requests wait most of the time.";

const bandNote =
  "A–B: the least and the largest value of the seeds. * then marks every row that has a value as good as the worst of the best row.";

/** Warnings about the rows: refused requests, no steady state, predicted step times, no evictions. */
function notes(rows: readonly SeedRuns[]): string[] {
  const runs = rows.flat();
  const refused = rows.filter((row) => !servesAll(row)).length;
  const unsteady = rows.flatMap((row) => row.flatMap(({ report }) => unsteadiness(report.load!) ?? []).slice(0, 1));
  // Without hits the index may be `none`.
  const everythingFits = runs.every(({ report: { cache } }) => cache.evictedBlocks === 0 && cache.hitBlocks > 0);
  const predicted = new Set(runs.flatMap(({ report: { simulation } }) => simulation?.costNote ?? []));
  return [
    ...(refused === 0
      ? []
      : [
          `Requests were refused in ${counted(refused, "row")}; latencies are of the requests that were served. --json reports the reasons.`,
        ]),
    ...(unsteady.length === 0
      ? []
      : [
          `No steady state in ${unsteady.length} of ${counted(rows.length, "row")} (in the first, ${unsteady[0]}): latencies ` +
            "depend on the length of the trace.",
        ]),
    ...predicted,
    ...(everythingFits ? [nothingEvicted] : []),
  ];
}

const nothingEvicted =
  "Nothing was evicted: all content fits into the cache, so eviction policies cannot differ. --blocks 10% makes it smaller.";

interface NameColumn {
  readonly header: string;
  readonly of: (row: Row) => string;
  /** Shown even if all rows have the same value. */
  readonly always?: (rows: readonly Row[]) => boolean | undefined;
}

/** True if rows of one preset have different values. */
function differs(rows: readonly Row[], of: NameColumn["of"]): boolean {
  const values = new Map<string, string>();
  for (const row of rows) {
    const preset = hasPresets(rows) ? (row.report.policy.preset ?? "") : "";
    const value = of(row);
    if ((values.get(preset) ?? value) !== value) return true;
    values.set(preset, value);
  }
  return false;
}

const hasPresets = (rows: readonly Row[]) => rows.some(({ report }) => report.policy.preset !== null);

const columns: readonly NameColumn[] = [
  { header: "policy", of: ({ report }) => report.policy.preset ?? "", always: hasPresets },
  {
    header: "eviction",
    of: ({ configuration }) => configuration.label,
    always: (rows) => (hasPresets(rows) ? undefined : true),
  },
  { header: "index", of: ({ configuration }) => configuration.indexLabel },
  { header: "allocator", of: ({ report }) => report.policy.allocator },
  { header: "scheduler", of: ({ report }) => report.policy.scheduler },
  { header: "rules", of: ({ configuration }) => configuration.ruleTexts.join(" ") },
  {
    header: "blocks",
    of: ({ report }) => (report.policy.blocks === null ? "unlimited" : grouped(report.policy.blocks)),
  },
  { header: "replicas", of: ({ report }) => String(report.simulation?.replicas ?? 1) },
  { header: "router", of: ({ report }) => report.simulation?.router ?? "–" },
  { header: "rate", of: ({ report: { simulation, engine } }) => String((simulation ?? engine)!.requestsPerS ?? "–") },
];

interface MetricColumn {
  readonly header: string;
  readonly of: (report: RunReport) => number | undefined;
  readonly text: (value: number, report: RunReport) => string;
  /** Absent: no row is marked. */
  readonly better?: "more" | "less";
}

const performance: readonly MetricColumn[] = [
  { header: "hit ratio", of: ({ cache }) => cache.hitRatio.token, text: ratio, better: "more" },
  { header: "TTFT p50", of: ({ latency }) => latency?.ttftMs?.p50, text: duration, better: "less" },
  { header: "p99", of: ({ latency }) => latency?.ttftMs?.p99, text: duration, better: "less" },
  { header: "TPOT", of: ({ latency }) => latency?.tpotMs?.mean, text: duration, better: "less" },
  { header: "latency", of: ({ latency }) => latency?.e2eMs?.mean, text: duration, better: "less" },
  {
    header: "requests/s",
    of: ({ load, throughput }) => load?.servedRequestsPerS ?? throughput?.requestsPerS,
    text: approximate,
    better: "more",
  },
];

const served: readonly MetricColumn[] = [
  { header: "refused", of: ({ cache }) => cache.refusedRequests, text: grouped },
  { header: "drain", of: ({ load }) => load?.drainMs, text: duration, better: "less" },
  { header: "SLO met", of: ({ slo }) => slo?.attained, text: percent, better: "more" },
  {
    header: "goodput/s",
    of: ({ slo, throughput }) => slo?.goodputRequestsPerS ?? throughput?.requestsPerS,
    text: approximate,
    better: "more",
  },
  { header: "limit", of: () => 0, text: (_, { load }) => limitNames[load!.limitedBy] },
];
