import type { DecoderConfig } from "../model/decoder.ts";
import { elementsOf, layerTensors, modelTensors, type TensorShape } from "../model/tensors.ts";
import { quantizedBlock, type WeightBits } from "../onnx/quantized.ts";

/** Bytes of a model's weights as the runtime has them. */
export function weightBytes(config: DecoderConfig, bits: WeightBits): number {
  const { hidden, vocabulary, layers, tiedEmbeddings } = config;
  const sum = (tensors: readonly TensorShape<string>[]) =>
    tensors.reduce((bytes, { tensor, shape }) => bytes + tensorBytes(isLookedUp(tensor) ? 32 : bits, shape), 0);
  // Embeddings are rows to look up. Where they are the head, too, and that is rounded, it is a matrix of its own.
  const ownHead = tiedEmbeddings && bits !== 32 ? tensorBytes(bits, [hidden, vocabulary]) : 0;
  return sum(modelTensors(config)) + layers * sum(layerTensors(config)) + ownHead;
}

const isLookedUp = (tensor: string) => tensor === "embedding" || tensor === "positions";

/** Of a rounded matrix each block of inputs has a scale. */
function tensorBytes(bits: WeightBits, shape: readonly number[]): number {
  if (bits === 32 || shape.length === 1) return 4 * elementsOf(shape);
  const [inputs, outputs] = shape;
  return outputs * Math.ceil(inputs / quantizedBlock) * ((quantizedBlock * bits) / 8 + 4);
}

/** Bytes of the pool that a token's keys and values take. */
export function tokenBytes({ layers, kvHeads, headDim }: DecoderConfig): number {
  return 2 * layers * kvHeads * headDim * Float32Array.BYTES_PER_ELEMENT;
}

/** Tokens that a pool can have in these bytes of memory, beside the weights. */
export function tokensThatFit(config: DecoderConfig, bits: WeightBits, bytes: number): number {
  return Math.max(0, Math.floor((bytes - weightBytes(config, bits)) / tokenBytes(config)));
}
