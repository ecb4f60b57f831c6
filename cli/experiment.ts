import { type Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { backendNames, defaultBackend } from "../engine/backends.ts";
import { type Experiment, type Findings, type Headline, hasShape } from "../lab/experiments/experiment.ts";
import { experimentNamed, experiments } from "../lab/experiments/index.ts";
import { type MetricName, type Metrics, metrics } from "../lab/experiments/metrics.ts";
import { ExperimentRunner, usualModel } from "../lab/experiments/runner.ts";
import { openTrace } from "../lab/input.ts";
import { percent } from "../lab/output/numbers.ts";
import { version } from "../lab/package.ts";
import { backendOf, type Target } from "../lab/run/target.ts";
import { wholeNumber } from "./input/options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { aligned, colors, wrapped } from "./output/table.ts";

type ExperimentTarget = Exclude<Target, "cache">;

interface ExperimentOptions {
  readonly target: ExperimentTarget;
  readonly threads?: number;
  readonly model?: string;
  readonly gpu?: string;
  readonly tp?: number;
  readonly trace?: string;
  readonly limit?: number;
  readonly seed: number;
  readonly json?: boolean;
}

const help = `
Examples:
  kvlab experiment                       what there is
  kvlab experiment lmdeploy-1407
  kvlab experiment block-size --gpu h100 --json
  kvlab experiment roseinfer --target ${defaultBackend.name} --model random:15m

Without --model and --gpu an experiment runs on what its source names, or on
what is assumed where it names nothing. Efficiency factors are the default ones
in all of them. A ratio has the published shape if it lies between the square
root and the square of the published one.`;

export function addExperiment(program: Command): void {
  program
    .command("experiment")
    .description("do a published measurement again, simulated or with the real engine: its figures beside ours")
    .argument("[NAME]", "which one; none: a list of all")
    .addOption(
      new Option("--target <TARGET>", "simulated, or measured with the real engine")
        .choices(["sim", ...backendNames])
        .default("sim"),
    )
    .option("--threads <N>", "of the real engine's operators (default: all)", wholeNumber("--threads", 1, 1024))
    .option("--model <NAME>", `another model than that of the experiment (engine: ${usualModel})`)
    .option("--gpu <NAME>", "another GPU than that of the experiment")
    .option("--tp <N>", "GPUs that share the model", wholeNumber("--tp", 1, 1024))
    .option("--trace <FILE>", "serve these requests where any will do (routers)")
    .option("--limit <N>", "read only the first N requests of the trace", wholeNumber("--limit", 1))
    .option("--seed <N>", "for the generated requests", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", help)
    .action(experiment);
}

async function experiment(name: string | undefined, options: ExperimentOptions): Promise<void> {
  if (name === undefined) {
    print(`${options.json ? JSON.stringify(listDocument(), undefined, 2) : list()}\n`);
    return;
  }
  const chosen = experimentNamed(name);
  const { model, gpu, tp, seed, limit, target, threads } = options;
  checkTarget(chosen, options);
  if (options.trace !== undefined && !chosen.takesTrace)
    throw new InputError(`--trace does not go with experiment ${name}, which generates its requests`);
  if (limit !== undefined && options.trace === undefined)
    throw new InputError("--limit goes with --trace: generated requests are as many as published");
  const progress = new Progress();
  try {
    const input =
      options.trace === undefined
        ? undefined
        : await openTrace(options.trace, {
            ...(limit !== undefined && { limit }),
            progress: progress.follow,
            signal: interruption,
          });
    const says = (what: string) => progress.state(`${name}: ${what}`);
    const laboratory = new ExperimentRunner({
      seed,
      target,
      threads,
      model,
      gpu,
      tp,
      trace: input?.trace,
      says,
      signal: interruption,
    });
    const findings = await withEngine(() => chosen.run(laboratory));
    progress.done();
    print(
      `${options.json ? JSON.stringify(documentOf(chosen, findings, options), undefined, 2) : text(chosen, findings, target)}\n`,
    );
  } finally {
    progress.done();
  }
}

/** @throws InputError if an option does not go with the target, or the experiment not with it */
function checkTarget({ name, takesEngine }: Experiment, { target, gpu, tp, threads }: ExperimentOptions): void {
  if (target === "sim" && threads !== undefined)
    throw new InputError(`--threads goes with --target ${backendNames.join(" or ")}: simulated steps have none`);
  if (target === "sim") return;
  if (!takesEngine) {
    const able = experiments.filter((other) => other.takesEngine).map((other) => other.name);
    throw new InputError(`experiment ${name} is too large for a real engine; there is: ${able.join(", ")}`);
  }
  if (gpu !== undefined || tp !== undefined)
    throw new InputError(
      `--${gpu === undefined ? "tp" : "gpu"} goes with --target sim: the engine runs on ${backendOf(target).device} of this machine`,
    );
}

const listDocument = () => ({
  schema: "experiments/1",
  experiments: experiments.map(({ name, about, source }) => ({ name, about, source })),
});

/** Key and heading of our metrics. */
const oursIn = (target: ExperimentTarget) => (target === "sim" ? "simulated" : "measured");

const nameWidth = 20;

const list = () =>
  [
    `${colors.bold("Experiments")} (kvlab experiment NAME)`,
    ...experiments.map(
      ({ name, about, source }) =>
        `  ${colors.cyan(name.padEnd(nameWidth))}${wrapped(`${about} ${colors.dim(`[${source}]`)}`, nameWidth + 2, nameWidth + 2)}`,
    ),
  ].join("\n");

/** Schema experiment/1. */
function documentOf({ name, about, source }: Experiment, findings: Findings, { seed, target }: ExperimentOptions) {
  const { workload, rows, headlines, explanations } = findings;
  const ours = oursIn(target);
  return {
    schema: "experiment/1",
    kvlab: version,
    name,
    about,
    source,
    seed,
    target,
    workload,
    rows: rows.map(({ configuration, published, simulated }) => ({
      configuration,
      published: published ?? null,
      [ours]: simulated,
      ratio: published ? quotients(simulated, published) : null,
    })),
    headlines: headlines.map((headline) => ({
      ratio: headline.ratio,
      published: headline.published ?? null,
      [ours]: headline.simulated,
      hasShape: hasShape(headline) ?? null,
    })),
    explanations,
    verdict: verdictOf(headlines),
  };
}

/** Simulated ÷ published, of each figure that is published. */
const quotients = (simulated: Metrics, published: Metrics): Metrics =>
  Object.fromEntries(
    (Object.keys(published) as MetricName[]).map((name) => [name, simulated[name]! / published[name]!]),
  );

function verdictOf(headlines: readonly Headline[]) {
  const compared = headlines.filter(({ published }) => published !== undefined);
  const deviating = compared.filter((headline) => !hasShape(headline)).map(({ ratio }) => ratio);
  return { compared: compared.length, haveShape: compared.length - deviating.length, deviating };
}

function text(
  experiment: Experiment,
  { workload, rows, headlines, explanations }: Findings,
  target: ExperimentTarget,
): string {
  const { name, about, source } = experiment;
  const title = wrapped(`${colors.bold(name)}  ${about} ${colors.dim(`[${source}]`)}`, 2);
  return [
    title,
    `  ${wrapped(workload, 2, 2)}`,
    rowTable(rows),
    headlineTable(headlines, oursIn(target)),
    explanations.map((explanation) => `  ${wrapped(explanation, 2, 2)}`).join("\n\n"),
    verdictText(headlines),
  ].join("\n\n");
}

/** A column for each figure, and beside it what was published, where something was. */
function rowTable(rows: Findings["rows"]): string {
  const names = (Object.keys(metrics) as MetricName[]).filter((name) =>
    rows.some((row) => row.simulated[name] !== undefined),
  );
  const columns = names.map((name) => ({ name, has: rows.some(({ published }) => published?.[name] !== undefined) }));
  const head = columns.flatMap(({ name, has }) => (has ? [metrics[name].label, "published"] : [metrics[name].label]));
  const lines = rows.map(({ configuration, published, simulated }) => [
    configuration,
    ...columns.flatMap(({ name, has }) => {
      const ours = shown(name, simulated[name]);
      return has ? [ours, colors.dim(shown(name, published?.[name]))] : [ours];
    }),
  ]);
  return aligned([["", ...head.map((label) => colors.bold(label))], ...lines], `l${"r".repeat(head.length)}`);
}

function shown(name: MetricName, value: number | undefined): string {
  if (value === undefined) return "";
  const { digits, ...figure } = metrics[name];
  if ("share" in figure) return percent(value);
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

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

const times = (ratio: number) => (ratio >= 10 ? ratio.toFixed(0) : ratio.toFixed(2));

const shapeText = (has: boolean | undefined) =>
  has === undefined ? "" : has ? colors.green("same shape") : colors.yellow("deviates");

function verdictText(headlines: readonly Headline[]): string {
  const { compared, haveShape } = verdictOf(headlines);
  if (compared === 0) return "No figure was published.";
  return `${haveShape} of ${counted(compared, "published ratio")} with the published shape.`;
}
