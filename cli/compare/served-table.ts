import { counted, grouped } from "../../core/counted.ts";
import type { Row } from "../../lab/compare/compare-served.ts";
import type { Input } from "../../lab/input.ts";
import { approximate, duration, percent, ratio } from "../../lab/output/numbers.ts";
import type { RunReport } from "../../lab/output/report.ts";
import { backendOf, deviceText } from "../../lab/run/target.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

/** A row for each timed run: the differing options, hit ratio, latency and throughput; the best of each column is marked. */
export function servedTable(input: Input, rows: readonly Row[]): string {
  const first = rows[0].report;
  const { simulation, engine, trace, target } = first;
  const where = simulation
    ? `${simulation.model} on ${simulation.gpu}`
    : `${engine!.model} on ${deviceText(backendOf(target), engine!.threads)}`;
  const names = columns.filter(({ of, always }) => always?.(rows) ?? differs(rows, of));
  const shown = metrics.filter(({ of }) => rows.some(({ report }) => of(report) !== undefined));
  const header = [...names.map(({ header }) => header), ...shown.map(({ header }) => `${header} `)];
  const best = shown.map(({ of, better }) => {
    const values = rows.flatMap(({ report }) => of(report) ?? []);
    return better === "more" ? Math.max(...values) : Math.min(...values);
  });
  const body = rows.map((row) => [
    ...names.map(({ of }) => of(row)),
    ...shown.map(({ of, text }, i) => {
      const value = of(row.report);
      if (value === undefined) return "– ";
      return rows.length > 1 && text(value) === text(best[i])
        ? colors.bold(colors.green(`${text(value)}*`))
        : `${text(value)} `;
    }),
  ]);
  const heading =
    `${colors.bold(input.name)}${input.files.length === 0 ? " (built-in)" : ""}: ${counted(trace.requests, "request")}, ` +
    `${approximate(trace.inputTokens)} prompt tokens; ${where}`;
  const note =
    "hit ratio: cached prefix tokens ÷ prompt tokens. TTFT: arrival to first token; TPOT: per token after it; " +
    "latency: arrival to last token. * marks the best.";
  const refused = rows.filter(({ report }) => report.cache.refusedRequests > 0).length;
  const refusals =
    refused === 0
      ? []
      : [colors.yellow(`Requests were refused in ${counted(refused, "row")}; --json reports the reasons.`)];
  // Without hits the index may be `none`.
  const everythingFits = rows.every(({ report: { cache } }) => cache.evictedBlocks === 0 && cache.hitBlocks > 0);
  const sameResults = everythingFits ? [colors.yellow(wrapped(nothingEvicted, 0))] : [];
  return [
    wrapped(heading, 0),
    aligned([header.map((cell) => colors.bold(cell)), ...body], "l".repeat(names.length) + "r".repeat(shown.length)),
    wrapped(note, 0),
    ...sameResults,
    ...refusals,
  ].join("\n\n");
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
  readonly text: (value: number) => string;
  readonly better: "more" | "less";
}

const metrics: readonly MetricColumn[] = [
  { header: "hit ratio", of: ({ cache }) => cache.hitRatio.token, text: ratio, better: "more" },
  { header: "TTFT p50", of: ({ latency }) => latency?.ttftMs?.p50, text: duration, better: "less" },
  { header: "p99", of: ({ latency }) => latency?.ttftMs?.p99, text: duration, better: "less" },
  { header: "TPOT", of: ({ latency }) => latency?.tpotMs?.mean, text: duration, better: "less" },
  { header: "latency", of: ({ latency }) => latency?.e2eMs?.mean, text: duration, better: "less" },
  { header: "requests/s", of: ({ throughput }) => throughput?.requestsPerS, text: approximate, better: "more" },
  { header: "SLO met", of: ({ slo }) => slo?.attained, text: percent, better: "more" },
  { header: "goodput/s", of: ({ slo }) => slo?.goodputRequestsPerS, text: approximate, better: "more" },
];
