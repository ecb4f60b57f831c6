import { InputError } from "../../core/errors.ts";
import { threadedBackendNames } from "../../engine/backends.ts";
import type { Control } from "../control.ts";
import { opened, type TraceChoice } from "../input.ts";
import { version } from "../package.ts";
import { backendOf, type Target } from "../run/target.ts";
import { type Experiment, type Findings, type Headline, hasShape } from "./experiment.ts";
import { experimentNamed, experiments } from "./index.ts";
import type { MetricName, Metrics } from "./metrics.ts";
import { ExperimentRunner } from "./runner.ts";

/** Simulated, or measured with an engine backend. */
export type ExperimentTarget = Exclude<Target, "cache">;

/** Target, model, GPU and requests of an experiment. */
export interface ExperimentOptions extends Control {
  /** "sim" by default. */
  readonly target?: ExperimentTarget;
  /** Threads of the engine's operators. */
  readonly threads?: number | undefined;
  /** Model and GPU; by default those of the experiment's source. */
  readonly model?: string | undefined;
  readonly gpu?: string | undefined;
  /** Tensor parallelism. */
  readonly tp?: number | undefined;
  /** Requests to serve instead of generated ones, if the experiment accepts any. */
  readonly trace?: TraceChoice | undefined;
  /** Most requests that are read from the trace. */
  readonly limit?: number | undefined;
  /** Random seed of generated requests. */
  readonly seed?: number;
}

/** Schema experiment/1. */
export interface ExperimentDocument {
  readonly schema: "experiment/1";
  readonly kvlab: string;
  readonly name: string;
  readonly about: string;
  readonly source: string;
  readonly seed: number;
  readonly target: ExperimentTarget;
  readonly workload: string;
  /** Our metrics are `simulated` for the target "sim", else `measured`; `ratio` is ours ÷ published. */
  readonly rows: readonly {
    readonly configuration: string;
    readonly published: Metrics | null;
    readonly simulated?: Metrics;
    readonly measured?: Metrics;
    readonly ratio: Metrics | null;
  }[];
  readonly headlines: readonly {
    readonly ratio: string;
    readonly published: NonNullable<Headline["published"]> | null;
    readonly simulated?: number;
    readonly measured?: number;
    readonly hasShape: boolean | null;
  }[];
  readonly explanations: readonly string[];
  readonly verdict: ExperimentVerdict;
}

/** The number of published ratios, the number of ours that have their shape, and the names of the others. */
export interface ExperimentVerdict {
  readonly compared: number;
  readonly haveShape: number;
  readonly deviating: readonly string[];
}

/** The result of `runExperiment`. */
export interface ExperimentRun {
  /** The document that `kvlab experiment NAME --json` prints: schema experiment/1. */
  readonly report: ExperimentDocument;
  readonly experiment: Pick<Experiment, "name" | "about" | "source">;
  readonly findings: Findings;
}

/** Schema experiments/1. */
export interface ExperimentList {
  readonly schema: "experiments/1";
  readonly experiments: readonly { readonly name: string; readonly about: string; readonly source: string }[];
}

/** The published measurements that `runExperiment` can repeat. */
export const listExperiments = (): ExperimentList => ({
  schema: "experiments/1",
  experiments: experiments.map(({ name, about, source }) => ({ name, about, source })),
});

/**
 * Repeats a published measurement, simulated or with an engine, and compares the metrics.
 *
 * @throws InputError, ExecutorError, Interrupted
 */
export async function runExperiment(name: string, options: ExperimentOptions = {}): Promise<ExperimentRun> {
  const experiment = experimentNamed(name);
  checkOptions(experiment, options);
  const { target = "sim", threads, model, gpu, tp, trace, limit, seed = 1, progress, signal } = options;
  const input =
    trace === undefined
      ? undefined
      : await opened(trace, { ...(limit !== undefined && { limit }), ...(progress && { progress }), signal });
  const runner = new ExperimentRunner({
    ...{ seed, target, threads, model, gpu, tp, trace: input?.trace, signal },
    onRun: (description) => progress?.({ doing: `${name}: ${description}`, done: 0 }),
  });
  const findings = await experiment.run(runner);
  return { report: documentOf(experiment, findings, seed, target), experiment, findings };
}

/** @throws InputError if options contradict each other or the experiment */
function checkOptions(
  { name, takesEngine, takesTrace }: Experiment,
  { target = "sim", gpu, tp, threads, trace, limit }: ExperimentOptions,
): void {
  if (target === "sim" && threads !== undefined)
    throw new InputError(`--threads needs --target ${threadedBackendNames.join(" or ")}: simulated steps have none`);
  if (target !== "sim" && !takesEngine) {
    const suitable = experiments.filter((other) => other.takesEngine).map((other) => other.name);
    throw new InputError(`experiment ${name} is too large for a real engine; expected one of ${suitable.join(", ")}`);
  }
  if (target !== "sim" && (gpu !== undefined || tp !== undefined))
    throw new InputError(
      `--${gpu === undefined ? "tp" : "gpu"} needs --target sim: the engine runs on ${backendOf(target).device} of this machine`,
    );
  if (trace !== undefined && !takesTrace)
    throw new InputError(`--trace is not an option of experiment ${name}, which generates its requests`);
  if (limit !== undefined && trace === undefined)
    throw new InputError("--limit needs --trace: the number of generated requests is the published one");
}

/** The key of our metrics in the report. */
export const oursIn = (target: ExperimentTarget) => (target === "sim" ? "simulated" : "measured");

function documentOf(
  { name, about, source }: Experiment,
  { workload, rows, headlines, explanations }: Findings,
  seed: number,
  target: ExperimentTarget,
): ExperimentDocument {
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

/** Simulated ÷ published, of each metric that is published. */
const quotients = (simulated: Metrics, published: Metrics): Metrics =>
  Object.fromEntries(
    (Object.keys(published) as MetricName[]).map((name) => [name, simulated[name]! / published[name]!]),
  );

function verdictOf(headlines: readonly Headline[]): ExperimentVerdict {
  const compared = headlines.filter(({ published }) => published !== undefined);
  const deviating = compared.filter((headline) => !hasShape(headline)).map(({ ratio }) => ratio);
  return { compared: compared.length, haveShape: compared.length - deviating.length, deviating };
}
