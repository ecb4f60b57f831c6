/** Configuration of a decoder-only transformer, which determines its graph. */
export interface DecoderConfig {
  readonly name: string;
  readonly architecture: "llama" | "qwen2" | "qwen3" | "mistral" | "gpt2" | "bloom";
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Inner width of the feed-forward network. */
  readonly ffn: number;
  readonly vocabulary: number;
  readonly maxPositions: number;
  readonly norm: { readonly kind: "rms" | "layer"; readonly epsilon: number };
  readonly positions: Positions;
  /** Gated: silu(x·gate) ⊙ (x·up) · down; else act(x·up) · down. */
  readonly feedForward: "silu-gated" | "gelu" | "gelu-tanh";
  /** Biases of query, key and value; of the output projection of attention; of the feed-forward network. */
  readonly biases: { readonly qkv: boolean; readonly output: boolean; readonly ffn: boolean };
  /** Queries and keys of each head are normalised before positions are applied (Qwen3). */
  readonly qkNorm: boolean;
  /** Embeddings are normalised (BLOOM). */
  readonly embeddingNorm: boolean;
  /** Number of tokens that a token attends to, itself included; undefined: all before it. */
  readonly window: number | undefined;
  /** The embedding matrix is also the output head. */
  readonly tiedEmbeddings: boolean;
  /** A sequence finishes with any of these. */
  readonly endTokens: readonly number[];
}

export type Positions =
  | {
      readonly kind: "rope";
      /** Inverse frequency of each pair of dimensions, scaling applied, [headDim / 2]. */
      readonly inverseFrequencies: Float64Array;
      /** Factor of cosines and sines (1 except for YaRN). */
      readonly factor: number;
    }
  | { readonly kind: "learned" }
  | { readonly kind: "alibi" };

/** Names of a decoder's tensors outside the layers; a `LayerTensor` is identified by its layer's number, too. */
export type ModelTensor =
  | "embedding" // [vocabulary, hidden]
  | "positions" // [maxPositions, hidden]
  | "embeddingNorm.weight" // [hidden]
  | "embeddingNorm.bias"
  | "norm.weight" // [hidden]
  | "norm.bias"
  | "head"; // [hidden, vocabulary]

export type LayerTensor =
  | "attentionNorm.weight" // [hidden]
  | "attentionNorm.bias"
  | "query" // [hidden, heads · headDim]
  | "key" // [hidden, kvHeads · headDim]
  | "value"
  | "query.bias" // [heads · headDim]
  | "key.bias"
  | "value.bias"
  | "queryNorm" // [headDim]
  | "keyNorm"
  | "output" // [heads · headDim, hidden]
  | "output.bias" // [hidden]
  | "ffnNorm.weight"
  | "ffnNorm.bias"
  | "gate" // [hidden, ffn]
  | "up" // [hidden, ffn]
  | "up.bias" // [ffn]
  | "down" // [ffn, hidden]
  | "down.bias"; // [hidden]

/** A model's weights as 32-bit floats in the layout above (rows are inputs), read by each call. */
export interface WeightSource {
  /** Distinguishes models that differ in any weight: a hash of the files' contents or sizes and times, or the seed. */
  readonly fingerprint: string;
  model(tensor: ModelTensor): Float32Array;
  layer(layer: number, tensor: LayerTensor): Float32Array;
  /**
   * The distribution of a random tensor of a large model; layer −1: the model's tensor. A backend may generate such a tensor on its
   * device, with other values than `model` and `layer` return. Absent if the weights must be read.
   */
  distribution?(tensor: ModelTensor | LayerTensor, layer: number): WeightDistribution;
}

/** A uniform distribution over [mean − scale, mean + scale). */
export interface WeightDistribution {
  /** An integer of 32 bits. */
  readonly seed: number;
  readonly mean: number;
  readonly scale: number;
}
