import type { KvCache } from "../../core/cache/kv-cache.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import type { ArrivalOptions } from "../../core/serving/arrivals.ts";
import type { StepObserver } from "../../core/serving/observers.ts";
import type { StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos, Trace } from "../../core/trace/trace.ts";
import { kvTokenBytes } from "../../sim/cost/kv-bytes.ts";
import { type ModelConfig, shapeOf } from "../../sim/cost/model-config.ts";
import type { Efficiency } from "../../sim/cost/roofline.ts";
import { Interrupted } from "../control.ts";
import { defaultBlockTokens, type PartNames, partsNamed, type RunConfig } from "../run/configuration.ts";
import { engineFrom } from "../run/real-engine.ts";
import { runEngine } from "../run/run-engine.ts";
import { runSimulation } from "../run/run-simulation.ts";
import type { ServedResult } from "../run/served-result.ts";
import type { Simulated } from "../run/simulated.ts";
import { capacityFrom, simulatedFrom, simulationConfig } from "../run/simulation.ts";
import { isEngine, type Target } from "../run/target.ts";
import type { Metrics } from "./metrics.ts";

/** On what an engine runs. A model is named, or given as the fields of its `config.json`. */
export interface Machine {
  readonly model: string | { readonly name: string; readonly config: ModelConfig };
  readonly gpu: string;
  /** GPUs that share the model. */
  readonly tp?: number | undefined;
}

/** What differs from the preset's, or the program's, defaults. Efficiency factors are always the default ones but to isolate a cause. */
export interface Setup extends PartNames {
  readonly machine: Machine;
  readonly schedulerOptions?: Readonly<Record<string, number>>;
  readonly rules?: Readonly<Partial<Record<RuleName, RuleValue>>>;
  readonly blockTokens?: number;
  readonly blocks?: number;
  readonly replicas?: number;
  readonly router?: string;
  readonly arrivals?: ArrivalOptions;
  readonly efficiency?: Partial<Efficiency>;
}

/** What a run came to: everything that a simulation says, and what its steps add up to. */
export interface Measured extends ServedResult {
  readonly sums: StepSums;
  /** Blocks of each replica's cache; undefined if it is unlimited. */
  readonly blocks: number | undefined;
}

export interface ExperimentRunnerOptions {
  readonly seed: number;
  /** An engine backend only where the experiment takes one. */
  readonly target?: Exclude<Target, "cache">;
  /** Of the real engine. */
  readonly threads?: number | undefined;
  /** Instead of the model and the GPU of every experiment. */
  readonly model?: string | undefined;
  readonly gpu?: string | undefined;
  readonly tp?: number | undefined;
  /** Requests to serve instead of generated ones, where an experiment can do with any. */
  readonly trace?: Trace | undefined;
  readonly says?: (what: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Where experiments are run: every configuration is one that `kvlab replay` takes, too. */
export class ExperimentRunner {
  readonly seed: number;
  readonly target: Exclude<Target, "cache">;
  readonly trace: Trace | undefined;
  readonly #options: ExperimentRunnerOptions;

  constructor(options: ExperimentRunnerOptions) {
    this.#options = options;
    this.seed = options.seed;
    this.target = options.target ?? "sim";
    this.trace = options.trace;
  }

  /** The machine of an experiment, with what the user wants instead. */
  machine(published: Machine): Machine {
    const { model, gpu, tp } = this.#options;
    return { model: model ?? published.model, gpu: gpu ?? published.gpu, tp: tp ?? published.tp };
  }

  /** @throws InputError if the model does not fit the GPU, or this machine. */
  async run(trace: Trace, setup: Setup): Promise<Measured> {
    const { machine, rules = {}, blocks, schedulerOptions } = setup;
    const what = this.target === "sim" ? "simulating" : "serving with";
    this.#options.says?.(`${what} ${[setup.preset, setup.scheduler, setup.router].filter(Boolean).join(" ")}`);
    const parts = await partsNamed(setup, rules, this.target);
    const configured = {
      ...parts,
      blockTokens: setup.blockTokens ?? defaultBlockTokens(trace.unitTokens, parts.preset),
      blocks: undefined,
      seed: this.seed,
    };
    const sums = new StepSums();
    if (isEngine(this.target)) {
      const config: RunConfig = {
        ...configured,
        blocks: blocks ?? roomFor(trace, configured.blockTokens),
        schedulerOptions,
      };
      const { model, threads } = this.#options;
      const engine = engineFrom(
        { target: this.target, model: model ?? usualModel, pace: "none", fold: true, ...(threads && { threads }) },
        trace,
      );
      const columns = CacheReplay.blockKeys(config, trace);
      const { result } = await runEngine(trace, columns, config, engine, {
        observers: [sums],
        signal: this.#options.signal,
      });
      if (result.interrupted) throw new Interrupted();
      return { ...result, sums, blocks: config.blocks };
    }
    const simulated = await simulatedOn(machine, setup, trace);
    const capacity = await capacityFrom({}, simulated, configured);
    const room =
      capacity !== undefined && capacity !== "unlimited" && "blocks" in capacity ? capacity.blocks : undefined;
    const config: RunConfig = { ...configured, blocks: blocks ?? room, schedulerOptions, simulated };
    const columns = CacheReplay.blockKeys(config, trace);
    const simulation = await simulationConfig(config, simulated);
    const { result } = await runSimulation(trace, columns, simulation, {
      observers: [sums],
      signal: this.#options.signal,
    });
    return { ...result, sums, blocks: config.blocks };
  }
}

/** What a real engine runs unless `--model` says otherwise. */
export const usualModel = "random:160m";

/** Blocks for all requests at once. */
function roomFor({ requestCount, inputTokens, outputTokens }: Trace, blockTokens: number): number {
  let blocks = 0;
  for (let row = 0; row < requestCount; row++)
    blocks += Math.ceil((inputTokens[row] + outputTokens[row]) / blockTokens);
  return blocks;
}

/** What `kvlab replay --target sim` would simulate; a model that is no file is put in. */
async function simulatedOn({ model, gpu, tp = 1 }: Machine, setup: Setup, trace: Trace): Promise<Simulated> {
  const { replicas, router, arrivals, efficiency } = setup;
  const options = {
    gpu,
    tp,
    ...arrivals,
    ...(replicas && { replicas }),
    ...(router && { router }),
    ...(efficiency && { efficiency }),
  };
  if (typeof model === "string") return await simulatedFrom({ ...options, model }, trace);
  const shape = shapeOf(model.name, model.config, model.name);
  const kvBytesPerToken = kvTokenBytes(shape, shape.numberBytes, tp);
  return { ...(await simulatedFrom(options, trace)), model: shape, kvBytesPerToken };
}

/** What steps add up to, of all replicas. */
export class StepSums implements StepObserver {
  count = 0;
  /** Time of steps that compute prompts, or make their first tokens, and nothing else. */
  promptS = 0;
  /** Tokens of prompts that were computed, and of answers that were computed again. */
  promptTokens = 0;
  /** Steps in which answers are written, and sequences in them. */
  #decodeSteps = 0;
  #decoding = 0;
  /** Room in blocks of steps that only write answers, and how much of it has nothing in it. */
  #room = 0;
  #empty = 0;

  /** The share of the held room that holds nothing: worth asking only where requests share no blocks. */
  get wasted(): number {
    return this.#room === 0 ? 0 : this.#empty / this.#room;
  }

  /** Answers that are written in one step, on average. */
  get batchMean(): number {
    return this.#decodeSteps === 0 ? 0 : this.#decoding / this.#decodeSteps;
  }

  steps(
    { cache }: { readonly cache: KvCache },
    load: Readonly<StepLoad>,
    startNs: Nanos,
    count: number,
    endsNs: Float64Array,
  ): void {
    const { decodeTokens, prefillSequences, prefillTokens, decodeContextTokens } = load;
    this.count += count;
    this.promptTokens += count * prefillTokens;
    if (decodeTokens === 0) {
      this.promptS += (endsNs[count - 1] - startNs) / 1e9;
      return;
    }
    this.#decodeSteps += count;
    this.#decoding += count * decodeTokens;
    if (prefillSequences > 0) return;
    // The load is that of the last of these steps: each has so many tokens more than the one before.
    const held = cache.referencedBlocks * cache.blockTokens;
    const filled = decodeContextTokens - ((count - 1) * decodeTokens) / 2;
    this.#room += count * held;
    this.#empty += count * (held - filled);
  }
}

/** The figures of a run that most tables have. */
export function usualMetrics({ throughput, counters, sums }: Measured) {
  return {
    makespanS: throughput.makespanS,
    requestsPerS: throughput.requestsPerS,
    hitRatioToken: counters.hitTokens / Math.max(1, counters.lookupTokens),
    batchMean: sums.batchMean,
  } satisfies Metrics;
}
