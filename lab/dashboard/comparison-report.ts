import type { RunRow, Setting } from "../../viz/api.ts";
import { workloadOf } from "../../viz/app/data/answer.ts";
import { baselineOf } from "../../viz/app/data/baseline.ts";
import { comparisonOf, isTimed, nameOf } from "../../viz/app/data/comparison.ts";
import {
  approximate,
  hitRatios,
  integer,
  milliseconds,
  percent,
  points,
  settingParts,
  targetText,
} from "../../viz/app/data/format.ts";
import type { ReportedRuns } from "../../viz/server/reported-runs.ts";
import { escaped } from "../traces/plots/chart.ts";
import { comparisonFigures } from "./comparison-figures.ts";

const style = `
  :root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums }
  body { max-width: 1000px; margin: 0 auto; padding: 24px; background: light-dark(#ffffff, #0d1117); color: light-dark(#1b1f24, #e8edf3) }
  h1 { font-size: 22px; margin: 0 0 4px } h2 { font-size: 16px; margin: 28px 0 8px }
  .muted { color: light-dark(#57606a, #9da7b3); margin: 0 } figure { margin: 0 0 16px; break-inside: avoid } svg { width: 100%; height: auto }
  .scroll { overflow-x: auto } table { border-collapse: collapse; font-size: 12.5px; min-width: 100% }
  th, td { padding: 3px 10px 3px 0; border-bottom: 1px solid light-dark(#dfe3e8, #2b333d); text-align: left; vertical-align: top }
  th.number, td.number { text-align: right; white-space: nowrap } tr { break-inside: avoid } thead { display: table-header-group }
  tr.baseline td { font-weight: 600 } .warnings { border-left: 4px solid #bf8700; padding-left: 20px }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 2px 0 12px; font: 12px/1.5 ui-monospace, monospace }
  h3 { font-size: 13px; margin: 8px 0 0; break-after: avoid; overflow-wrap: anywhere }
  @page { size: A4; margin: 14mm } @media print { :root { color-scheme: light; font-size: 11px } body { padding: 0; max-width: none }
    .scroll { overflow: visible } table { font-size: 9.5px } th, td { padding-right: 5px } }`;

/**
 * The comparison of runs as one HTML document without scripts and without references to other files: figures, tables, the
 * settings that differ, and the command, version and date of each run. Equal runs give an equal document.
 *
 * @param metric the definition of the hit ratio
 */
export function comparisonReport(reported: ReportedRuns, metric = "token"): string {
  const { rows, all, commands, versions } = reported;
  const comparison = comparisonOf(rows, all);
  const listed = [...comparison.rows, ...comparison.interrupted];
  const workloads = [...new Set(rows.map(workloadText))];
  const workload = workloads.length === 1 ? workloads[0] : `${workloads.length} workloads`;
  const kvlab = [...new Set(rows.map(({ id }) => versions.get(id) ?? "of unknown version"))].sort();
  const saved = rows.map(({ savedAtMs }) => savedAtMs).sort((a, b) => a - b);
  const dates = [...new Set([saved[0], saved.at(-1)!].map(dateText))].join(" to ");
  const warnings = [
    ...comparison.warnings,
    ...(comparison.interrupted.length > 0
      ? [`${comparison.interrupted.length} of the runs were interrupted: they are listed, and not drawn.`]
      : []),
  ];
  const parts = [
    `<h1>Comparison of ${integer(rows.length)} run${rows.length === 1 ? "" : "s"}</h1>`,
    `<p class="muted">${escaped(workload)}</p>`,
    `<p class="muted">kvlab ${escaped(kvlab.join(", "))} · saved ${dates} (UTC)</p>`,
    ...(warnings.length > 0
      ? [`<ul class="warnings">${warnings.map((text) => `<li>${escaped(text)}</li>`).join("")}</ul>`]
      : []),
    ...comparisonFigures(comparison, metric, workload).map((svg) => `<figure>${svg}</figure>`),
    "<h2>Results</h2>",
    resultsTable(listed, reported, metric),
    ...settingsSections(listed, (row) => nameOf(comparison, row.id)),
    "<h2>Commands</h2>",
    ...listed.map((row) => {
      const { id } = row;
      const facts = `${id}, kvlab ${versions.get(id) ?? "of unknown version"}, saved ${dateText(row.savedAtMs)} UTC`;
      const notes = row.notes?.text ? `<p>${escaped(row.notes.text)}</p>` : "";
      return `<h3>${escaped(nameOf(comparison, id))}</h3><p class="muted">${escaped(facts)}</p>${notes}<pre>${escaped(commands.get(id) ?? "")}</pre>`;
    }),
  ];
  const title = escaped(`Comparison: ${workload}`);
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title>
<style>${style}
</style></head>
<body>
${parts.join("\n")}
</body>
</html>
`;
}

const workloadText = (row: RunRow) => `${workloadOf({ ...row, target: targetText(row.target) })}`;

/** Without the locale and the time zone of the machine. */
const dateText = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");

interface Column {
  readonly label: string;
  of(row: RunRow): string | undefined;
}

/** A column per result that a run has; differences are relative to the baseline that Compare would choose. */
function resultsTable(listed: readonly RunRow[], { rows, all }: ReportedRuns, metric: string): string {
  const comparison = comparisonOf(rows, all);
  const baseline = baselineOf(comparison, null);
  const name = (row: RunRow) => nameOf(comparison, row.id);
  const shown = (
    label: string,
    value: (row: RunRow) => number | null | undefined,
    text: (value: number) => string,
  ): Column => ({
    label,
    of: (row) => {
      const found = value(row);
      return found === undefined || found === null ? undefined : text(found);
    },
  });
  const difference = (row: RunRow) => {
    const base = baseline.of(row);
    return base && base !== row && !row.interrupted ? row.hitRatio[metric] - base.hitRatio[metric] : undefined;
  };
  const columns: readonly Column[] = [
    { label: "Run", of: name },
    {
      label: "Cache size, tokens",
      of: ({ capacityTokens: size }) => (size === null ? "unlimited" : approximate(size)),
    },
    shown("Hit ratio", ({ hitRatio }) => hitRatio[metric], percent),
    shown("vs. baseline", (row) => difference(row), points),
    shown("Gap closed", ({ gapClosed }) => gapClosed?.[metric], percent),
    shown("Offered, req/s", ({ settings }) => settings["requestsPerS"] as number | undefined, approximate),
    shown("Throughput, req/s", ({ requestsPerS }) => requestsPerS, approximate),
    shown("Output tokens/s", ({ outputTokensPerS }) => outputTokensPerS, approximate),
    shown("Goodput, req/s", ({ goodputRequestsPerS }) => goodputRequestsPerS, approximate),
    shown("TTFT p50", ({ ttftMsP50 }) => ttftMsP50, milliseconds),
    shown("TTFT p99", ({ ttftMsP99 }) => ttftMsP99, milliseconds),
    shown("TPOT p50", ({ tpotMsP50 }) => tpotMsP50, milliseconds),
    shown("TPOT p99", ({ tpotMsP99 }) => tpotMsP99, milliseconds),
    shown("End-to-end latency p50", ({ latencyMsP50 }) => latencyMsP50, milliseconds),
    shown("Refused", ({ refused }) => refused, integer),
  ];
  const used = columns.filter(({ of }) => listed.some((row) => of(row) !== undefined));
  const base = baseline.choices.find(({ value }) => value === baseline.value)?.label;
  const definition = `Hit ratio: ${hitRatios[metric] ?? metric}.`;
  const notes = base && listed.length > 1 ? `${definition} Baseline: ${base}.` : definition;
  const isBase = (row: RunRow) => baseline.of(row) === row && listed.some((each) => difference(each) !== undefined);
  return `${table(
    "Results",
    used.map(({ label }) => label),
    listed.map((row) => ({ cells: used.map(({ of }) => of(row) ?? "–"), isBase: isBase(row) })),
  )}<p class="muted">${escaped(notes)}${listed.some(isTimed) ? " Latencies are those of served requests." : ""}</p>`;
}

interface Row {
  readonly cells: readonly string[];
  readonly isBase?: boolean;
}

/** The first column is text, the others are numbers. */
function table(title: string, header: readonly string[], rows: readonly Row[], areNumbers = true): string {
  const classOf = (i: number) => (i > 0 && areNumbers ? ' class="number"' : "");
  const head = header.map((text, i) => `<th scope="col"${classOf(i)}>${escaped(text)}</th>`).join("");
  const body = rows.map(({ cells, isBase }) => {
    const row = cells.map((text, i) => `<td${classOf(i)}>${escaped(text)}</td>`).join("");
    return `<tr${isBase ? ' class="baseline"' : ""}>${row}</tr>`;
  });
  return `<div class="scroll" tabindex="0" role="region" aria-label="${title}"><table><thead><tr>${head}</tr></thead><tbody>\n${body.join("\n")}\n</tbody></table></div>`;
}

const rowSettings = [
  "trace",
  "requests",
  "target",
  "preset",
  "index",
  "eviction",
  "allocator",
  "scheduler",
  "blockTokens",
] as const;

/** The settings of a run by name, as texts. */
function settingsOf(row: RunRow): Map<string, string> {
  const own = rowSettings.map((name) => [name, row[name] ?? "–"] as const);
  return new Map(
    [...own, ["blocks", row.blocks ?? "unlimited"] as const, ...Object.entries(row.settings)].map(([name, value]) => {
      const [label, text] = settingParts(name, value as Setting);
      return [label, text];
    }),
  );
}

/** A table of the settings that differ, a row per run, and the settings that all runs share. */
function settingsSections(rows: readonly RunRow[], name: (row: RunRow) => string): string[] {
  const all = rows.map(settingsOf);
  const names = [...new Set(all.flatMap((settings) => [...settings.keys()]))];
  const valuesOf = (setting: string) => new Set(all.map((settings) => settings.get(setting) ?? "–"));
  const differing = names.filter((setting) => valuesOf(setting).size > 1);
  const common = names.filter((setting) => valuesOf(setting).size === 1);
  const commonText = common.map((setting) => `${setting} ${all[0].get(setting)}`).join(" · ");
  return [
    ...(differing.length > 0
      ? [
          "<h2>Settings that differ</h2>",
          table(
            "Settings that differ",
            ["Run", ...differing],
            rows.map((row, i) => ({ cells: [name(row), ...differing.map((setting) => all[i].get(setting) ?? "–")] })),
            false,
          ),
        ]
      : []),
    "<h2>Common settings</h2>",
    `<p>${escaped(commonText)}</p>`,
  ];
}
