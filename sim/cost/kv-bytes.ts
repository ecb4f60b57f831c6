import { InputError } from "../../core/errors.ts";
import type { ModelShape } from "./model-shape.ts";

/** Bytes of a stored number, by `--kv-dtype`; `auto` is the type that the model computes with. */
export function kvNumberBytes(type: string, shape: ModelShape): number {
  switch (type) {
    case "auto":
      return shape.numberBytes;
    case "fp32":
      return 4;
    case "bf16":
    case "fp16":
      return 2;
    case "fp8":
    case "int8":
      return 1;
  }
  throw new InputError(`no type "${type}" for keys and values: expected auto, fp32, bf16, fp16, fp8 or int8`);
}

/**
 * Bytes of one token's KV in one layer on one of `tensorParallel` devices. KV heads are divided until each device has one; the
 * latent vector of MLA cannot be divided, so that every device stores all of it.
 */
export function kvLayerBytes(shape: ModelShape, numberBytes: number, tensorParallel = 1): number {
  const share = shape.latentDim === undefined ? Math.max(1 / tensorParallel, 1 / shape.kvHeads) : 1;
  return shape.kvNumbers * numberBytes * share;
}

/** The same in all layers. */
export function kvTokenBytes(shape: ModelShape, numberBytes: number, tensorParallel = 1): number {
  return shape.layers * kvLayerBytes(shape, numberBytes, tensorParallel);
}

/**
 * Number of layers that store only the last tokens of a sequence, those in their window: the sliding-window layers of a model
 * that has full-attention layers, too. 0 if all layers have a window, because then every cached prefix consists of windows.
 */
export function windowLayers({ layers, window }: ModelShape): number {
  return window !== undefined && window.layers < layers ? window.layers : 0;
}

/** Bytes of one cached token on one device: its KV in the layers that store every token. */
export function cachedTokenBytes(shape: ModelShape, numberBytes: number, tensorParallel = 1): number {
  return (shape.layers - windowLayers(shape)) * kvLayerBytes(shape, numberBytes, tensorParallel);
}

/** Sequences and sizes that determine the memory of sliding windows. */
export interface WindowLoad {
  /** Most running sequences. */
  readonly sequences: number;
  /** Most tokens in a step. */
  readonly stepTokens: number;
  readonly blockTokens: number;
}

/**
 * Bytes of one device that the windows of all running sequences need in `windowLayers`. A window of W tokens is in at most
 * `ceil((W - 1) / blockTokens) + 1` blocks; the tokens of a step are stored until it ends.
 *
 * Source: `SlidingWindowSpec.max_memory_usage_bytes` of vLLM's hybrid KV cache manager.
 */
export function windowBytes(
  shape: ModelShape,
  numberBytes: number,
  { sequences, stepTokens, blockTokens }: WindowLoad,
  tensorParallel = 1,
): number {
  const layers = windowLayers(shape);
  if (layers === 0) return 0;
  const blocks = Math.ceil((shape.window!.tokens - 1) / blockTokens) + 1;
  const tokens = sequences * blocks * blockTokens + stepTokens;
  return tokens * layers * kvLayerBytes(shape, numberBytes, tensorParallel);
}
