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

/** The same in all layers. Sliding-window layers store every token of a block, however short the window. */
export function kvTokenBytes(shape: ModelShape, numberBytes: number, tensorParallel = 1): number {
  return shape.layers * kvLayerBytes(shape, numberBytes, tensorParallel);
}
