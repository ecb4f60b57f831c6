import { availableParallelism } from "node:os";
import { alternatives } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { EngineBackend, WeightBits } from "../../engine/backend.ts";
import { defaultBackend } from "../../engine/backends.ts";
import { type LoadedModel, loadModel } from "../../engine/model/load.ts";
import type { Capacity } from "./capacity.ts";
import { arrivalsOf, checkConcurrency, checkTurns, loopReport, speedFrom, turnsOf } from "./load.ts";
import type { OutputLengths, Pace } from "./paces.ts";
import { defaultSwapSpace, type SimulationOptions } from "./simulation-options.ts";
import { backendOf } from "./target.ts";

/** A real engine: model, threads and arrivals. */
export interface RealEngine {
  readonly backend: EngineBackend;
  readonly model: string;
  readonly loaded: LoadedModel;
  /** Of the model's operators; undefined if the backend has none. */
  readonly threads: number | undefined;
  /** Bits per weight. */
  readonly bits: WeightBits;
  readonly pace: Pace;
  readonly outputLengths: OutputLengths;
  readonly loop: "open" | "closed";
  /** Requests in flight, instead of recorded arrivals. */
  readonly concurrency: number | undefined;
  readonly speed: number;
  /** Requests per second, if the speed was derived from it. */
  readonly rate: number | undefined;
  readonly spread: "none" | "uniform";
  /** Least `maxOutputTokens` of a request. */
  readonly maxOutput: number;
  /** Bytes of host memory for swapped-out blocks, beside the pool. */
  readonly swapSpace: number;
  /** Token ids outside the model's vocabulary are mapped into it. */
  readonly fold: boolean;
  readonly slo: Slo | undefined;
}

export const defaultModel = "random:tiny";

/**
 * @param loaded the model, if it is open already
 * @throws InputError if the model is unknown or cannot be read, or the backend does not support an option
 */
export function engineFrom(
  options: SimulationOptions & { readonly target?: string },
  trace: Trace,
  loaded?: LoadedModel,
): RealEngine {
  const model = options.model ?? defaultModel;
  const backend = backendOf(options.target ?? defaultBackend.name);
  const modelOptions = modelOptionsOf(backend, options);
  checkConcurrency(options);
  if (options.loop === "closed") checkTurns(turnsOf(trace));
  return {
    backend,
    model,
    loaded: loaded ?? loadModel(model),
    ...modelOptions,
    pace: options.pace ?? "busy",
    outputLengths: options.outputLengths ?? "trace",
    loop: options.loop ?? "open",
    concurrency: options.concurrency,
    speed: speedFrom(options, arrivalsOf(trace)),
    rate: options.rate,
    spread: options.spread ?? "none",
    maxOutput: options.maxOutput ?? 0,
    swapSpace: options.swapSpace ?? defaultSwapSpace,
    fold: options.fold === true,
    slo: options.slo,
  };
}

/**
 * Bits per weight and threads of a backend's operators; by default the backend's.
 *
 * @throws InputError that names an option that the backend does not support
 */
export function modelOptionsOf(
  { name, device, weightBits, hasThreads }: EngineBackend,
  { bits = weightBits[0], threads }: Pick<SimulationOptions, "bits" | "threads">,
): Pick<RealEngine, "bits" | "threads"> {
  if (!weightBits.includes(bits))
    throw new InputError(`--bits is ${bits}, expected ${alternatives(weightBits)} with --target ${name}`);
  if (threads !== undefined && !hasThreads)
    throw new InputError(`--threads is not an option of --target ${name}: the model's operators run on ${device}`);
  return { bits, threads: hasThreads ? (threads ?? availableParallelism()) : undefined };
}

/** Bytes of a token's KV in the engine's pool. */
export const poolBytesPerToken = ({ backend, loaded: { config } }: RealEngine): number =>
  backend.memory.tokenBytes(config);

/** The engine, as in a report. */
export function describeEngine(engine: RealEngine) {
  const { backend, model, loaded, threads, bits, pace, outputLengths } = engine;
  const { speed, rate, spread, maxOutput, swapSpace, fold } = engine;
  const { config, parameterCount } = loaded;
  const { architecture, vocabulary } = config;
  return {
    model,
    architecture,
    parameters: parameterCount,
    vocabulary,
    backend: backend.reportName,
    threads: threads ?? null,
    bits,
    pace,
    answers: outputLengths,
    ...loopReport(engine),
    speed,
    requestsPerS: rate ?? null,
    spread,
    maxOutput,
    swapSpaceBytes: swapSpace,
    fold,
    ...(backend.calls && { calls: backend.calls.of(config).rules }),
  };
}

/** The size of the pool by `--blocks`, `--capacity` or `--gpu-memory`; undefined if none is given. */
export function engineCapacity(
  { blocks, capacity, gpuMemory }: PoolOptions,
  engine: RealEngine,
  blockTokens: number,
): Capacity | undefined {
  const bytes = gpuMemory === undefined ? capacity : bytesBesideWeights(gpuMemory, engine);
  if (bytes === undefined) return blocks;
  const blockBytes = poolBytesPerToken(engine) * blockTokens;
  if (bytes >= blockBytes) return { blocks: Math.floor(bytes / blockBytes) };
  const given =
    gpuMemory === undefined
      ? `--capacity is ${bytes} bytes`
      : `--gpu-memory ${gpuMemory} leaves ${Math.max(0, bytes)} bytes beside the weights`;
  throw new InputError(`${given}, less than the ${blockBytes} bytes of one block of ${blockTokens} tokens`);
}

interface PoolOptions {
  readonly blocks?: Capacity;
  readonly capacity?: number;
  /** Share of the device's memory for weights and pool. */
  readonly gpuMemory?: number;
}

/** Bytes of the pool if weights and pool have this share of the device's memory. */
function bytesBesideWeights(share: number, { backend: { memory }, loaded, bits }: RealEngine): number {
  return Math.floor(share * (memory.totalBytes?.() ?? 0)) - memory.weightBytes(loaded.config, bits);
}
