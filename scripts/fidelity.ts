// The leave-one-run-out tables of docs/fidelity.md: every recorded run of vLLM in the folder of recorded traces, predicted with
// nothing fitted to it. The null model is fitted to the other run.
//   npm run -s fidelity             prints the tables
//   npm run -s fidelity -- --write  writes them into docs/fidelity.md
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type FidelityReport, fidelity } from "../lab/fidelity/fidelity.ts";

const document = "docs/fidelity.md";
const [begin, end] = ["<!-- tables: begin -->\n", "<!-- tables: end -->"];
const folder = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces", "sharegpt");
const trace = join(folder, "sharegpt-llama-3.1-8b-300-sps10.jsonl.gz");
const runs = [
  { name: "RTX 4090", record: join(folder, "vllm-0.19-rtx4090-llama-3.1-8b") },
  { name: "RTX PRO 6000", record: join(folder, "vllm-0.19-rtxpro6000-llama-3.1-8b") },
];

/** Errors of LLMServingSim 2.0 for the same run, as published: lines such as "TTFT Median  9442.7  8633.9  -8.6%". */
function published(record: string): ReadonlyMap<string, number> {
  const summary = readFileSync(join(record, "summary.txt"), "utf8");
  const lines = summary.matchAll(/^(TTFT|TPOT|Latency) (Mean|Median|P\d+) .* ([-+][\d.]+)%$/gm);
  return new Map(
    Array.from(lines, ([, metric, statistic, percent]) => [
      `${metric.toLowerCase()}Ms ${statistic.toLowerCase().replace("median", "p50")}`,
      Number(percent) / 100,
    ]),
  );
}

const percent = (share: number | undefined) =>
  share === undefined ? "" : `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)} %`;
const nameOf = (row: FidelityReport["rows"][number]) =>
  row.metric === "makespanMs"
    ? "makespan"
    : `${row.metric.slice(0, -2).replace("ttft", "TTFT").replace("tpot", "TPOT")} ${row.statistic}`;
const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

async function tableOf({ name, record }: (typeof runs)[number]): Promise<string> {
  const others = runs.filter((run) => run.record !== record);
  const [profile, roofline, nothing] = [
    await fidelity(trace, record),
    await fidelity(trace, record, { cost: "roofline" }),
    await fidelity(trace, record, { null: true, fitTo: others[0].record }),
  ];
  const theirs = published(record);
  const head = ["", "vLLM, ms", "profile, ms", "", "95 % interval", "roofline", "null model", "LLMServingSim"];
  const rows = profile.rows.map((row, i) => [
    nameOf(row),
    ...[row.recorded.toFixed(1), row.simulated.toFixed(1), percent(row.difference)],
    `${percent(row.low)} to ${percent(row.high)}`,
    ...[percent(roofline.rows[i].difference), percent(nothing.rows[i].difference)],
    percent(theirs.get(`${row.metric} ${row.statistic}`)),
  ]);
  const each = (title: string, of: (report: FidelityReport) => string) =>
    line([title, "", "", of(profile), "", of(roofline), of(nothing), ""]);
  const ms = (value: number) => `${value.toFixed(0)} ms`;
  return [
    `**${name}**`,
    "",
    line(head),
    line(["---", ...head.slice(1).map(() => "---:")]),
    ...rows.map(line),
    each("fitted", ({ fitted }) => (fitted.length === 0 ? "not fitted" : "fitted to the other run")),
    each("mean error of a request's TTFT", ({ requestErrors }) => ms(requestErrors.ttftMsMeanAbsolute)),
    each("mean error of a request's latency", ({ requestErrors }) => ms(requestErrors.latencyMsMeanAbsolute)),
    each("first tokens in order", ({ requestErrors }) => `${(100 * requestErrors.firstTokensInOrder).toFixed(1)} %`),
    each("TPOT of a request, P5", ({ requestErrors }) => percent(requestErrors.tpotP5)),
    each("TPOT of a request, P95", ({ requestErrors }) => percent(requestErrors.tpotP95)),
    each("preemptions", ({ preemptions }) => String(preemptions)),
  ].join("\n");
}

const tables: string[] = [];
for (const run of runs) tables.push(await tableOf(run));
const text = tables.join("\n\n");
if (process.argv.includes("--write")) {
  const before = readFileSync(document, "utf8");
  const [from, to] = [before.indexOf(begin), before.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${document} has no ${begin.trim()} … ${end}`);
  writeFileSync(document, `${before.slice(0, from)}${begin}\n${text}\n\n${before.slice(to)}`);
} else process.stdout.write(`${text}\n`);
