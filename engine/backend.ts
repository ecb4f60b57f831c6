import type { RestoreExtension, StepLoadExtension } from "../core/serving/step-load.ts";
import type { ContentsTolerance } from "./contents/difference.ts";
import type { Executor } from "./executor.ts";
import type { DecoderConfig, WeightSource } from "./model/decoder.ts";

/** Bits per weight of matrix products: 32-bit floats, bfloat16, or integers of 8 or 4 bits. */
export type WeightBits = 32 | 16 | 8 | 4;

export interface ExecutorOptions {
  readonly model: { readonly config: DecoderConfig; readonly weights: WeightSource };
  readonly blockCount: number;
  readonly blockTokens: number;
  /** Threads of the model's operators on the host; by default as many as this process may use. */
  readonly threads?: number;
  /** By default the first of the backend's `weightBits`. */
  readonly bits?: WeightBits;
  /** Folder for files that the backend derives from the weights; the user's cache folder by default. */
  readonly folder?: string;
}

/** Memory that an executor needs: weights, block pool and, during a step, its activations. */
export interface MemoryDemand {
  readonly config: DecoderConfig;
  readonly bits: WeightBits;
  readonly blockCount: number;
  readonly blockTokens: number;
  readonly stepTokens?: number;
}

/** Sizes in the backend's memory, in bytes. */
export interface BackendMemory {
  weightBytes(config: DecoderConfig, bits: WeightBits): number;
  /** Bytes of one token's keys and values in the block pool. */
  tokenBytes(config: DecoderConfig): number;
  /** Bytes that weights and block pool may use now. @throws UnavailableError if the machine lacks the device */
  availableBytes(): number;
  /** All bytes of the device's own memory, for `--gpu-memory`; absent: weights and pool are in the machine's memory. */
  totalBytes?(): number;
  /** @throws InputError if weights and block pool do not fit */
  checkFits(demand: MemoryDemand): void;
}

/** Tokens of a block pool that fit in `bytes` beside the weights. */
export function tokensThatFit(memory: BackendMemory, config: DecoderConfig, bits: WeightBits, bytes: number): number {
  return Math.max(0, Math.floor((bytes - memory.weightBytes(config, bits)) / memory.tokenBytes(config)));
}

/** The library or driver that a backend runs on, as `kvlab doctor` reports it. */
export interface BackendRuntime {
  readonly name: string;
  /** The report's fields if it does not load. */
  readonly missing: Readonly<Record<string, unknown>>;
  /** @throws UnavailableError of one line if the machine lacks its device, or ExecutorError of one line if it does not load */
  load(): Promise<{ readonly found: string; readonly report: Readonly<Record<string, unknown>> }>;
}

/** An implementation of `Executor`, with its memory and its calls. */
export interface EngineBackend {
  /** Value of `--target`. */
  readonly name: string;
  /** Value of `engine.backend` in reports. */
  readonly reportName: string;
  /** Name of the device in messages: "on the CPU". */
  readonly device: string;
  /**
   * Name of the device by its driver, such as "NVIDIA H200"; of a backend without memory of its own, its name among the simulator's
   * devices. @throws UnavailableError if the machine lacks the device
   */
  deviceName(): string;
  /** The values of `--bits`, the default first. */
  readonly weightBits: readonly [WeightBits, ...WeightBits[]];
  /** Whether `--threads` has an effect. */
  readonly hasThreads: boolean;
  /**
   * @throws InputError if the model cannot be prepared, or does not fit in memory
   * @throws UnavailableError if the machine lacks the device
   * @throws ExecutorError if the model cannot be loaded
   */
  open(options: ExecutorOptions): Promise<Executor>;
  readonly memory: BackendMemory;
  /** Division and padding of a model's steps, or the same restored from a report or a cost file; absent if steps are not divided. */
  readonly calls?: { of(config: DecoderConfig): StepLoadExtension; readonly restore: RestoreExtension };
  readonly runtime: BackendRuntime;
  /**
   * Errors of keys, values and logits that depend on the batch in which they are computed; absent: they are bit-identical in every
   * batch, with and without a cached prefix.
   */
  readonly contentsTolerance?: ContentsTolerance;
  /**
   * Runs a small model and compares its logits with known ones.
   *
   * @returns the failure; undefined if the check passes
   * @throws InputError or ExecutorError if the model does not run
   */
  selfCheck(): Promise<string | undefined>;
}
