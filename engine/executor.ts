import type { StepLoadExtension } from "../core/serving/step-load.ts";

/**
 * One forward pass: the prefill chunks and decode tokens of a step, packed without padding. Sequence s has rows
 * `[cuSeqlensQ[s], cuSeqlensQ[s + 1])` and attends to its first `contextLens[s]` tokens through its block table.
 */
export interface BatchStep {
  /** Token ids, [tokens]. */
  readonly inputIds: Int32Array;
  /** Position of each token in its sequence, [tokens]. */
  readonly positions: Int32Array;
  /** Slot of each token's keys and values, block · block size + offset, [tokens]; −1: not stored. */
  readonly slotMapping: Int32Array;
  /** Prefix sums of query lengths, [sequences + 1]. */
  readonly cuSeqlensQ: Int32Array;
  /** Context length of each sequence after the step, cached prefix included, [sequences]. */
  readonly contextLens: Int32Array;
  /** [sequences, maxBlocksPerSequence]; entries past a sequence's last block are never read. */
  readonly blockTables: Int32Array;
  readonly maxBlocksPerSequence: number;
  /** Rows whose logits are computed, [logits]. */
  readonly logitsIndices: Int32Array;
  /** Sampling of the rows of `logitsIndices` on the device: the result then has tokens instead of logits. */
  readonly sampling?: readonly DeviceSampling[];
}

/** Parameters of sampling on the device, without penalties or bias. Equal logits, seed and position sample equal tokens. */
export interface DeviceSampling {
  /** 0: greedy, the lowest token id of equal logits. */
  readonly temperature: number;
  /** 0: no limit. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly seed: number;
  /** Output tokens of the request before this one. */
  readonly position: number;
}

export interface StepTiming {
  /** Time in the model's operators. */
  readonly deviceMs: number;
  /** All other time of the step: gathering inputs, storing keys and values, sampling. */
  readonly hostMs: number;
}

export interface BatchResult {
  /** [logits, vocabulary], in the order of `logitsIndices`; valid until the next step. Empty if the device sampled. */
  readonly logits: Float32Array;
  /** Sampled tokens, [logits]; only if the step has `sampling`. */
  readonly tokens?: Int32Array;
  readonly timing: StepTiming;
}

/** Element types of a block pool, with the bytes of an element. */
export const poolElementBytes = { float32: 4, bfloat16: 2 } as const;
export type PoolType = keyof typeof poolElementBytes;

/** Runs a model over a paged pool of keys and values. One call at a time. */
export interface Executor {
  /** The backend, as reports name it. */
  readonly backend: string;
  readonly blockCount: number;
  readonly blockTokens: number;
  readonly poolType: PoolType;
  /** Division and padding of steps; absent if steps run as they are. */
  readonly calls?: StepLoadExtension;
  /** Whether the device supports this sampling; absent: steps always return logits. */
  canSample?(sampling: DeviceSampling): boolean;
  executeStep(step: BatchStep): Promise<BatchResult>;
  /** Copies whole blocks in order, for copy-on-write. */
  copyBlocks(pairs: readonly { readonly source: number; readonly target: number }[]): Promise<void>;
  /** Keys and values of blocks, [layers, block size, kv heads · head dim] each: for swap-out and for checks. */
  readBlocks(blocks: readonly number[]): Promise<BlockData[]>;
  /** Writes `data[i]` to block `blocks[i]`. */
  writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void>;
  close(): Promise<void>;
}

/** Keys and values of one block in the pool's element type: float32 as Float32Array, bfloat16 as bits in a Uint16Array. */
export interface BlockData {
  readonly keys: Float32Array | Uint16Array;
  readonly values: Float32Array | Uint16Array;
}

/** An executor failed to load or to run: its thread died, or its runtime failed. */
export class ExecutorError extends Error {
  override name = "ExecutorError";
}

/** The machine lacks the driver or the device of a backend. The message is one line: "no CUDA driver: libcuda.so.1 not found". */
export class UnavailableError extends ExecutorError {
  override name = "UnavailableError";
}
