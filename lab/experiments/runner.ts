import type { KvCache } from "../../core/cache/kv-cache.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { CacheReplay, type ReplayResult, replayTrace } from "../../core/replica/replay.ts";
import type { ArrivalOptions } from "../../core/serving/arrivals.ts";
import type { StepObserver } from "../../core/serving/observers.ts";
import type { StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos, Trace } from "../../core/trace/trace.ts";
import type { Efficiency } from "../../sim/cost/efficiency.ts";
import { cachedTokenBytes } from "../../sim/cost/kv-bytes.ts";
import { type ModelConfig, shapeOf } from "../../sim/cost/model-config.ts";
import { Interrupted } from "../control.ts";
import {
  defaultBlockTokens,
  deviceOf,
  type PartNames,
  partsNamed,
  type RunConfig,
  schedulerOptionsOn,
} from "../run/configuration.ts";
import { engineFrom, type RealEngine } from "../run/real-engine.ts";
import { runEngine } from "../run/run-engine.ts";
import { simulateWhole } from "../run/run-simulation.ts";
import type { ServedResult } from "../run/served-result.ts";
import type { Simulated } from "../run/simulated.ts";
import { capacityFrom, simulatedFrom, simulationConfig } from "../run/simulation.ts";
import { isEngine, type Target } from "../run/target.ts";
import type { CostPlugin } from "../user-plugins/kinds.ts";
import type { Metrics } from "./metrics.ts";

/** Model and hardware of a run. The model is a name, or the fields of its `config.json`. */
export interface Machine {
  readonly model: string | { readonly name: string; readonly config: ModelConfig };
  readonly gpu: string;
  /** Tensor parallelism. */
  readonly tp?: number | undefined;
}

/** Options that differ from the preset's defaults. Efficiency factors are changed only to isolate a cause. */
export interface Setup extends PartNames {
  readonly machine: Machine;
  readonly schedulerOptions?: Readonly<Record<string, number>>;
  readonly rules?: Readonly<Partial<Record<RuleName, RuleValue>>>;
  readonly blockTokens?: number;
  readonly blocks?: number;
  readonly replicas?: number;
  readonly router?: string;
  /** Instead of `replicas`: separate replicas for prefill and decode. */
  readonly prefillReplicas?: number;
  readonly decodeReplicas?: number;
  readonly arrivals?: ArrivalOptions;
  readonly efficiency?: Partial<Efficiency>;
  /** Step times of the original engine, to isolate a cause. */
  readonly cost?: CostPlugin;
}

/** A cache without a machine. */
export interface CacheSetup {
  readonly eviction: string;
  readonly blocks: number;
  /** "hash-table" by default. */
  readonly index?: string;
  readonly rules?: Setup["rules"];
  /** The trace's unit by default, 16 for token ids. */
  readonly blockTokens?: number;
}

/** The result of a run, and sums over its steps. */
export interface Measured extends ServedResult {
  readonly sums: StepSums;
  /** Blocks of each replica's cache; undefined if it is unlimited. */
  readonly blocks: number | undefined;
}

export interface ExperimentRunnerOptions {
  readonly seed: number;
  /** A simulation, or an engine backend for experiments with `takesEngine`. */
  readonly target?: Exclude<Target, "cache">;
  /** Threads of the real engine. */
  readonly threads?: number | undefined;
  /** Replacements for the model and hardware of the experiment. */
  readonly model?: string | undefined;
  readonly gpu?: string | undefined;
  readonly tp?: number | undefined;
  /** Requests to serve instead of generated ones, for experiments with `takesTrace`. */
  readonly trace?: Trace | undefined;
  readonly onRun?: (description: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Runs the configurations of experiments, each of which `kvlab replay` can run, too. */
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

  /** The machine of an experiment, with the user's replacements. */
  machine(published: Machine): Machine {
    const { model, gpu, tp } = this.#options;
    return { model: model ?? published.model, gpu: gpu ?? published.gpu, tp: tp ?? published.tp };
  }

  /** A replay without a clock, one request at a time. */
  async replay(
    trace: Trace,
    { eviction, blocks, index = "hash-table", rules = {}, blockTokens }: CacheSetup,
  ): Promise<ReplayResult> {
    this.#options.onRun?.(`replaying with ${eviction}`);
    if (this.#options.signal?.aborted) throw new Interrupted();
    return replayTrace(trace, {
      ...(await partsNamed({ eviction, index }, rules, "cache")),
      blockTokens: blockTokens ?? defaultBlockTokens(trace.unitTokens),
      blocks,
      seed: this.seed,
    });
  }

  /** @throws InputError if the model does not fit the GPU, or this machine. */
  async run(trace: Trace, setup: Setup): Promise<Measured> {
    const { machine, rules = {}, blocks } = setup;
    const verb = this.target === "sim" ? "simulating" : "serving with";
    this.#options.onRun?.(`${verb} ${[setup.preset, setup.scheduler, setup.router].filter(Boolean).join(" ")}`);
    const parts = await partsNamed(setup, rules, this.target);
    const configured = {
      ...parts,
      blockTokens: setup.blockTokens ?? defaultBlockTokens(trace.unitTokens, parts.preset),
      blocks: undefined,
      seed: this.seed,
    };
    const optionsOn = (simulated: Simulated | undefined, engine: RealEngine | undefined) => ({
      ...schedulerOptionsOn(parts, deviceOf(simulated, engine)),
      ...setup.schedulerOptions,
    });
    const sums = new StepSums();
    if (isEngine(this.target)) {
      const { model, threads } = this.#options;
      const engine = engineFrom(
        {
          target: this.target,
          model: model ?? defaultEngineModel,
          pace: "none",
          fold: true,
          ...(threads && { threads }),
        },
        trace,
      );
      const config: RunConfig = {
        ...configured,
        blocks: blocks ?? blocksForAll(trace, configured.blockTokens),
        schedulerOptions: optionsOn(undefined, engine),
      };
      const columns = CacheReplay.blockKeys(config, trace);
      const { result } = await runEngine(trace, columns, config, engine, {
        observers: [sums],
        signal: this.#options.signal,
      });
      if (result.interrupted) throw new Interrupted();
      return { ...result, sums, blocks: config.blocks };
    }
    const simulated = await simulatedOn(machine, setup, trace);
    const schedulerOptions = optionsOn(simulated, undefined);
    const capacity = await capacityFrom({}, simulated, { ...configured, schedulerOptions });
    const fitting =
      capacity !== undefined && capacity !== "unlimited" && "blocks" in capacity ? capacity.blocks : undefined;
    const config: RunConfig = { ...configured, blocks: blocks ?? fitting, schedulerOptions, simulated };
    const columns = CacheReplay.blockKeys(config, trace);
    const simulation = await simulationConfig(config, simulated);
    const { signal } = this.#options;
    const result = await simulateWhole(trace, columns, simulation, { observers: [sums], signal });
    return { ...result, sums, blocks: config.blocks };
  }
}

/** The default model of a real engine. */
export const defaultEngineModel = "random:160m";

/** Blocks for all requests at the same time. */
function blocksForAll({ requestCount, inputTokens, outputTokens }: Trace, blockTokens: number): number {
  let blocks = 0;
  for (let row = 0; row < requestCount; row++)
    blocks += Math.ceil((inputTokens[row] + outputTokens[row]) / blockTokens);
  return blocks;
}

/** The simulated machine, as for `kvlab replay --target sim`; the model may also be given by its fields. */
async function simulatedOn({ model, gpu, tp = 1 }: Machine, setup: Setup, trace: Trace): Promise<Simulated> {
  const { replicas, prefillReplicas, decodeReplicas, router, arrivals, efficiency, cost } = setup;
  const options = {
    gpu,
    tp,
    ...arrivals,
    ...(replicas && { replicas }),
    ...(prefillReplicas && { prefillReplicas }),
    ...(decodeReplicas && { decodeReplicas }),
    ...(router && { router }),
    ...(efficiency && { efficiency }),
    ...(cost && { cost }),
  };
  if (typeof model === "string") return await simulatedFrom({ ...options, model }, trace);
  const shape = shapeOf(model.name, model.config, model.name);
  const kvBytesPerToken = cachedTokenBytes(shape, shape.numberBytes, tp);
  return { ...(await simulatedFrom(options, trace)), model: shape, kvBytesPerToken };
}

/** Sums over the steps of all replicas. */
export class StepSums implements StepObserver {
  count = 0;
  /** Time of steps with prefill only. */
  promptS = 0;
  /** Computed prompt tokens, and recomputed tokens of preempted sequences. */
  promptTokens = 0;
  /** Steps with decode, and their decoding sequences. */
  #decodeSteps = 0;
  #decoding = 0;
  /** Referenced slots in decode-only steps, and the empty ones among them. */
  #slots = 0;
  #empty = 0;

  /** Share of referenced slots that are empty. Meaningful only if requests share no blocks. */
  get wasted(): number {
    return this.#slots === 0 ? 0 : this.#empty / this.#slots;
  }

  /** Mean number of decoding sequences in a step with decode. */
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
    // The load is that of the last of these steps; each step has `decodeTokens` more context tokens than the one before.
    const slots = cache.referencedBlocks * cache.blockTokens;
    const filled = decodeContextTokens - ((count - 1) * decodeTokens) / 2;
    this.#slots += count * slots;
    this.#empty += count * (slots - filled);
  }
}

/** The metrics that most tables have. */
export function commonMetrics({ throughput, counters, sums }: Measured) {
  return {
    makespanS: throughput.makespanS,
    requestsPerS: throughput.requestsPerS,
    hitRatioToken: counters.hitTokens / Math.max(1, counters.lookupTokens),
    batchMean: sums.batchMean,
  } satisfies Metrics;
}
