import type { BatchResult, BatchStep, BlockData } from "../executor.ts";

/** A call of a worker that has loaded its model, one at a time. Backends add their own calls that load it. */
export type ExecutorRequest =
  | { readonly kind: "step"; readonly step: BatchStep }
  | { readonly kind: "copy"; readonly pairs: readonly BlockCopy[] }
  | { readonly kind: "read"; readonly blocks: readonly number[] }
  | { readonly kind: "write"; readonly blocks: readonly number[]; readonly data: readonly BlockData[] }
  | { readonly kind: "close" };

export interface BlockCopy {
  readonly source: number;
  readonly target: number;
}

/** The calls of a backend that load its model; `kind` is none of those of `ExecutorRequest`. */
export interface LoadRequest {
  readonly kind: "load" | "weights";
}

export type WorkerResponse =
  | { readonly value: BatchResult | BlockData[] | undefined }
  | { readonly error: { readonly name: string; readonly message: string } };

/** A model and its block pool in the worker thread. */
export interface WorkerDecoder {
  executeStep(step: BatchStep): BatchResult | Promise<BatchResult>;
  copyBlocks(pairs: readonly BlockCopy[]): void;
  readBlocks(blocks: readonly number[]): BlockData[];
  writeBlocks(blocks: readonly number[], data: readonly BlockData[]): void;
  close(): void | Promise<void>;
}
