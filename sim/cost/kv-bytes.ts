import { InputError } from "../../core/errors.ts";
import type { ModelShape } from "./model-shape.ts";

/** Bytes of a stored number, by `--kv-dtype`; `auto` is what the model computes with. */
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
 * Bytes that a token takes in one layer on one of `tensorParallel` devices. Heads of keys and values are spread until
 * each device has one; what MLA stores is one for all, so every device has all of it.
 */
export function kvLayerBytes(shape: ModelShape, numberBytes: number, tensorParallel = 1): number {
  const share = shape.latentDim === undefined ? Math.max(1 / tensorParallel, 1 / shape.kvHeads) : 1;
  return shape.kvNumbers * numberBytes * share;
}

/** The same in all layers: what a token takes for as long as it is in a block, however short a layer's window. */
export function kvTokenBytes(shape: ModelShape, numberBytes: number, tensorParallel = 1): number {
  return shape.layers * kvLayerBytes(shape, numberBytes, tensorParallel);
}
