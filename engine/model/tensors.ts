import type { DecoderConfig, LayerTensor, ModelTensor } from "./decoder.ts";

/** A tensor of a decoder. A shape has one dimension (vector) or two: [inputs, outputs], or [rows, hidden] for embeddings. */
export interface TensorShape<Name extends string> {
  readonly tensor: Name;
  readonly shape: readonly number[];
}

/** The tensors outside the layers; `head` only without tied embeddings. */
export function modelTensors(config: DecoderConfig): TensorShape<ModelTensor>[] {
  const { hidden, vocabulary, maxPositions, norm } = config;
  const all: (TensorShape<ModelTensor> | false)[] = [
    { tensor: "embedding", shape: [vocabulary, hidden] },
    config.positions.kind === "learned" && { tensor: "positions", shape: [maxPositions, hidden] },
    config.embeddingNorm && { tensor: "embeddingNorm.weight", shape: [hidden] },
    config.embeddingNorm && { tensor: "embeddingNorm.bias", shape: [hidden] },
    { tensor: "norm.weight", shape: [hidden] },
    norm.kind === "layer" && { tensor: "norm.bias", shape: [hidden] },
    !config.tiedEmbeddings && { tensor: "head", shape: [hidden, vocabulary] },
  ];
  return all.filter((one) => one !== false);
}

/** The tensors of each layer, in the order in which they are used. */
export function layerTensors(config: DecoderConfig): TensorShape<LayerTensor>[] {
  const { hidden, heads, kvHeads, headDim, ffn, norm, biases, qkNorm } = config;
  const queries = heads * headDim;
  const keys = kvHeads * headDim;
  const layerNorm = norm.kind === "layer";
  const all: (TensorShape<LayerTensor> | false)[] = [
    { tensor: "attentionNorm.weight", shape: [hidden] },
    layerNorm && { tensor: "attentionNorm.bias", shape: [hidden] },
    { tensor: "query", shape: [hidden, queries] },
    biases.qkv && { tensor: "query.bias", shape: [queries] },
    { tensor: "key", shape: [hidden, keys] },
    biases.qkv && { tensor: "key.bias", shape: [keys] },
    { tensor: "value", shape: [hidden, keys] },
    biases.qkv && { tensor: "value.bias", shape: [keys] },
    qkNorm && { tensor: "queryNorm", shape: [headDim] },
    qkNorm && { tensor: "keyNorm", shape: [headDim] },
    { tensor: "output", shape: [queries, hidden] },
    biases.output && { tensor: "output.bias", shape: [hidden] },
    { tensor: "ffnNorm.weight", shape: [hidden] },
    layerNorm && { tensor: "ffnNorm.bias", shape: [hidden] },
    config.feedForward === "silu-gated" && { tensor: "gate", shape: [hidden, ffn] },
    { tensor: "up", shape: [hidden, ffn] },
    biases.ffn && { tensor: "up.bias", shape: [ffn] },
    { tensor: "down", shape: [ffn, hidden] },
    biases.ffn && { tensor: "down.bias", shape: [hidden] },
  ];
  return all.filter((one) => one !== false);
}

/** Number of elements of a shape. */
export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** All weights of a decoder; tied embeddings count once. */
export function parameterCount(config: DecoderConfig): number {
  const sum = (tensors: readonly TensorShape<string>[]) => tensors.reduce((n, { shape }) => n + elementsOf(shape), 0);
  return sum(modelTensors(config)) + config.layers * sum(layerTensors(config));
}
