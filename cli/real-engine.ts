import { availableParallelism } from "node:os";
import { InputError } from "../core/errors.ts";
import type { Slo } from "../core/serving/figures.ts";
import { type LoadedModel, loadModel } from "../engine/model/load.ts";
import type { Capacity } from "./options.ts";
import type { Pace } from "./paces.ts";
import type { SimulationOptions } from "./simulation-options.ts";

/** A real engine: which model, on how many threads, and how requests come. */
export interface RealEngine {
  readonly model: string;
  readonly loaded: LoadedModel;
  readonly threads: number;
  readonly pace: Pace;
  readonly loop: "open" | "closed";
  readonly speed: number;
  /** Token ids that the model does not have become others. */
  readonly fold: boolean;
  readonly slo: Slo | undefined;
}

const defaultModel = "random:tiny";

/** @throws InputError if there is no such model, or it cannot be read */
export function engineFrom(options: SimulationOptions, speed: number): RealEngine {
  const model = options.model ?? defaultModel;
  return {
    model,
    loaded: loadModel(model),
    threads: options.threads ?? availableParallelism(),
    pace: options.pace ?? "busy",
    loop: options.loop ?? "open",
    speed,
    fold: options.fold === true,
    slo: options.slo,
  };
}

/** Bytes that a token's keys and values take in the engine's pool. */
const poolBytesPerToken = ({ loaded: { config } }: RealEngine) =>
  2 * config.layers * config.kvHeads * config.headDim * Float32Array.BYTES_PER_ELEMENT;

/** What a report says of it. */
export function describeEngine({ model, loaded, threads, pace, loop, speed, fold }: RealEngine) {
  const { config, parameterCount } = loaded;
  const { architecture, vocabulary } = config;
  return {
    model,
    architecture,
    parameters: parameterCount,
    vocabulary,
    backend: "onnx-cpu",
    threads,
    pace,
    loop,
    speed,
    fold,
  };
}

/** The size of the pool as `--blocks` or `--capacity` give it; undefined if nothing says. */
export function engineCapacity(
  { blocks, capacity }: { readonly blocks?: Capacity; readonly capacity?: number },
  engine: RealEngine,
  blockTokens: number,
): Capacity | undefined {
  if (capacity === undefined) return blocks;
  const blockBytes = poolBytesPerToken(engine) * blockTokens;
  if (capacity >= blockBytes) return { blocks: Math.floor(capacity / blockBytes) };
  throw new InputError(
    `--capacity is ${capacity} bytes, less than one block of ${blockTokens} tokens takes: ${blockBytes}`,
  );
}
