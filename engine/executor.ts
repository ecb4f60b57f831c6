import type { StepLoadExtension } from "../core/serving/step-load.ts";

/**
 * One forward pass: prompt chunks and answers of a step, packed one after the other without padding. Sequence s has rows
 * `cuSeqlensQ[s] .. cuSeqlensQ[s + 1])` and attends to its first `contextLens[s]` tokens, through its block table.
 */
export interface BatchStep {
  /** Token ids, [tokens]. */
  readonly inputIds: Int32Array;
  /** Place of each token in its sequence, [tokens]. */
  readonly positions: Int32Array;
  /** Where its keys and values go, block · block size + offset, [tokens]. */
  readonly slotMapping: Int32Array;
  /** Prefix sums of query lengths, [sequences + 1]. */
  readonly cuSeqlensQ: Int32Array;
  /** Tokens that are there after the step: cached prefix and new ones, [sequences]. */
  readonly contextLens: Int32Array;
  /** [sequences, maxBlocksPerSequence]; what is past a sequence's last block is never read. */
  readonly blockTables: Int32Array;
  readonly maxBlocksPerSequence: number;
  /** Rows whose logits are wanted, [logits]. */
  readonly logitsIndices: Int32Array;
  /** Sampling of the rows of `logitsIndices` on the device: the result then has tokens instead of logits. */
  readonly sampling?: readonly DeviceSampling[];
}

/** How a device samples a token from logits without penalties or bias. The same seed and position sample the same token. */
export interface DeviceSampling {
  /** 0: the token with the largest logit, the lowest of equal ones. */
  readonly temperature: number;
  /** 0: all. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly seed: number;
  /** Output tokens of the request before this one. */
  readonly position: number;
}

export interface StepTiming {
  /** In the model's own operators, and in all else: gathering inputs, storing rows, sampling. */
  readonly deviceMs: number;
  readonly hostMs: number;
}

export interface BatchResult {
  /** [logits, vocabulary], in the order of `logitsIndices`; valid until the next step. Empty if the device sampled. */
  readonly logits: Float32Array;
  /** Sampled tokens, [logits]; only if the step has `sampling`. */
  readonly tokens?: Int32Array;
  readonly timing: StepTiming;
}

/** Number formats of a block pool, with the bytes of an element. */
export const poolElementBytes = { float32: 4, bfloat16: 2 } as const;
export type PoolType = keyof typeof poolElementBytes;

/** Runs a model over a paged pool of keys and values. One call at a time. */
export interface Executor {
  /** The backend, as reports name it. */
  readonly backend: string;
  readonly blockCount: number;
  readonly blockTokens: number;
  readonly poolType: PoolType;
  /** How it divides and pads steps; undefined if it does not. */
  readonly calls?: StepLoadExtension;
  /** Whether a step may have this sampling; absent: steps return logits. */
  canSample?(sampling: DeviceSampling): boolean;
  executeStep(step: BatchStep): Promise<BatchResult>;
  /** Copies whole blocks, in order: copy-on-write. */
  copyBlocks(pairs: readonly { readonly source: number; readonly target: number }[]): Promise<void>;
  /** Keys and values of blocks, [layers, block size, kv heads · head dim] each: for swapping out and for checks. */
  readBlocks(blocks: readonly number[]): Promise<BlockData[]>;
  /** `data[i]` is written to block `blocks[i]`. */
  writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void>;
  close(): Promise<void>;
}

/** Keys and values of one block, in the pool's number format: float32 as Float32Array, bfloat16 as its bits in Uint16Array. */
export interface BlockData {
  readonly keys: Float32Array | Uint16Array;
  readonly values: Float32Array | Uint16Array;
}

/** An executor cannot go on, or could not begin: its thread died, or what it runs on failed. */
export class ExecutorError extends Error {
  override name = "ExecutorError";
}
