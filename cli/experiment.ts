import { type Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { backendNames, defaultBackend } from "../engine/backends.ts";
import { type Findings, type Headline, hasShape } from "../lab/experiments/experiment.ts";
import { type MetricName, metrics } from "../lab/experiments/metrics.ts";
import {
  type ExperimentOptions,
  type ExperimentRun,
  type ExperimentVerdict,
  listExperiments,
  oursIn,
  runExperiment,
} from "../lab/experiments/run-experiment.ts";
import { defaultEngineModel } from "../lab/experiments/runner.ts";
import { wholeNumber } from "./input/options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { aligned, colors, wrapped } from "./output/table.ts";

interface ExperimentCommandOptions extends ExperimentOptions {
  readonly json?: boolean;
}

const help = `
Examples:
  kvlab experiment                       list all experiments
  kvlab experiment lmdeploy-1407
  kvlab experiment block-size --gpu h100 --json
  kvlab experiment roseinfer --target ${defaultBackend.name} --model random:15m

The default model and GPU are those of the experiment's source, or assumed ones
if it names none. Efficiency factors always have their defaults. A ratio has the
published shape if it lies between the square root and the square of the
published one.`;

export function addExperiment(program: Command): void {
  program
    .command("experiment")
    .description("repeat a published measurement, simulated or with a real engine, and compare the metrics")
    .argument("[NAME]", "the experiment (default: list all)")
    .addOption(
      new Option("--target <TARGET>", "sim: simulated; otherwise measured with a real engine")
        .choices(["sim", ...backendNames])
        .default("sim"),
    )
    .option("--threads <N>", "threads of the real engine's operators (default: all)", wholeNumber("--threads", 1, 1024))
    .option("--model <NAME>", `model (default: the experiment's; real engine: ${defaultEngineModel})`)
    .option("--gpu <NAME>", "GPU (default: the experiment's)")
    .option("--tp <N>", "tensor-parallel GPUs (default: the experiment's)", wholeNumber("--tp", 1, 1024))
    .option("--trace <FILE>", "serve the requests of this trace instead of generated ones")
    .option("--limit <N>", "read only the first N requests of the trace", wholeNumber("--limit", 1))
    .option("--seed <N>", "random seed of generated requests", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", help)
    .action(experiment);
}

async function experiment(name: string | undefined, given: ExperimentCommandOptions): Promise<void> {
  const { json, ...options } = given;
  if (name === undefined) {
    print(`${json ? JSON.stringify(listExperiments(), undefined, 2) : list()}\n`);
    return;
  }
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const run = await withEngine(() => runExperiment(name, { ...options, ...control }));
    progress.done();
    print(`${json ? JSON.stringify(run.report, undefined, 2) : text(run)}\n`);
  } finally {
    progress.done();
  }
}

const nameWidth = 20;

const list = () =>
  [
    `${colors.bold("Experiments")} (kvlab experiment NAME)`,
    ...listExperiments().experiments.map(
      ({ name, about, source }) =>
        `  ${colors.cyan(name.padEnd(nameWidth))}${wrapped(`${about} ${colors.dim(`[${source}]`)}`, nameWidth + 2, nameWidth + 2)}`,
    ),
  ].join("\n");

function text({ experiment, findings, report }: ExperimentRun): string {
  const { name, about, source } = experiment;
  const { workload, rows, headlines, explanations } = findings;
  const title = wrapped(`${colors.bold(name)}  ${about} ${colors.dim(`[${source}]`)}`, 2);
  return [
    title,
    `  ${wrapped(workload, 2, 2)}`,
    rowTable(rows),
    headlineTable(headlines, oursIn(report.target)),
    explanations.map((explanation) => `  ${wrapped(explanation, 2, 2)}`).join("\n\n"),
    verdictText(report.verdict),
  ].join("\n\n");
}

/** A column for each metric, followed by the published values if there are any. */
function rowTable(rows: Findings["rows"]): string {
  const names = (Object.keys(metrics) as MetricName[]).filter((name) =>
    rows.some((row) => row.simulated[name] !== undefined),
  );
  const columns = names.map((name) => ({
    name,
    isPublished: rows.some(({ published }) => published?.[name] !== undefined),
  }));
  const head = columns.flatMap(({ name, isPublished }) =>
    isPublished ? [metrics[name].label, "published"] : [metrics[name].label],
  );
  const lines = rows.map(({ configuration, published, simulated }) => [
    configuration,
    ...columns.flatMap(({ name, isPublished }) => {
      const ours = shown(name, simulated[name]);
      return isPublished ? [ours, colors.dim(shown(name, published?.[name]))] : [ours];
    }),
  ]);
  return aligned([["", ...head.map((label) => colors.bold(label))], ...lines], `l${"r".repeat(head.length)}`);
}

function shown(name: MetricName, value: number | undefined): string {
  if (value === undefined) return "";
  const { digits, ...metric } = metrics[name];
  if ("share" in metric) return `${(100 * value).toFixed(digits)} %`;
  return withDigits(value, digits);
}

const withDigits = (value: number, digits: number) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

function headlineTable(headlines: readonly Headline[], ours: string): string {
  const lines = headlines.map((headline) => [
    headline.ratio,
    publishedText(headline.published),
    times(headline.simulated),
    shapeText(hasShape(headline)),
  ]);
  return aligned([["", "published", ours, ""].map((label) => colors.bold(label)), ...lines], "lrrl");
}

function publishedText(published: Headline["published"]): string {
  if (published === undefined) return "–";
  if (typeof published === "number") return times(published);
  const [least, most] = published;
  return most === Number.POSITIVE_INFINITY ? `> ${times(least)}` : `${times(least)} to ${times(most)}`;
}

/** Three significant digits, as 1.26, 34.4 and 136; whole numbers from 10 on are counts and are exact. */
const times = (ratio: number) =>
  ratio >= 100 || (ratio >= 10 && Number.isInteger(ratio)) ? withDigits(ratio, 0) : ratio.toFixed(ratio < 10 ? 2 : 1);

const shapeText = (has: boolean | undefined) =>
  has === undefined ? "" : has ? colors.green("same shape") : colors.yellow("deviates");

function verdictText({ compared, haveShape }: ExperimentVerdict): string {
  if (compared === 0) return "No published result is compared.";
  return `${haveShape} of ${counted(compared, "published result")} with the published shape.`;
}
