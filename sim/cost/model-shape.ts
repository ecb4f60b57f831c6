/**
 * What a model is to a cost model and to memory: sizes of its matrices and of what it stores for a token. Matrices of
 * all layers together are counted once, in parameters; a layer's norms and biases are counted with them.
 */
export interface ModelShape {
  readonly name: string;
  readonly layers: number;
  readonly hidden: number;
  readonly vocabulary: number;
  /** Heads of queries; each has `keyDim` numbers for a score and gives `valueDim` back. */
  readonly heads: number;
  readonly kvHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  /** Numbers stored for a token in a layer: keys and values of all heads, or (MLA) what they are computed from. */
  readonly kvNumbers: number;
  /** Of which so many are what keys and values are made of (MLA): one head for all, which tensor parallelism copies. */
  readonly latentDim?: number | undefined;
  /** The first so many layers have one feed-forward network, of this inner width. */
  readonly denseLayers: number;
  readonly ffn: number;
  /** The others have many, of which a router picks `active` for each token; `shared` ones are for every token. */
  readonly experts?: ExpertShape | undefined;
  /** Layers that see no further back than this many tokens. */
  readonly window?: { readonly tokens: number; readonly layers: number } | undefined;
  readonly tiedEmbeddings: boolean;
  readonly parameters: ParameterCounts;
  /** Bytes of a number that is not quantised: embeddings, activations, keys and values. */
  readonly numberBytes: number;
  /** Bytes of a parameter of the layers' matrices, with the scales that quantised ones have. */
  readonly weightBytes: number;
  readonly expertWeightBytes: number;
  /** What matrices are multiplied in: `fp8` if weights and activations are, else the width of a number. */
  readonly compute: ComputeType;
}

export type ComputeType = "fp32" | "bf16" | "fp8";

export interface ExpertShape {
  readonly count: number;
  readonly active: number;
  readonly shared: number;
  readonly ffn: number;
}

export interface ParameterCounts {
  /** All of them. */
  readonly total: number;
  /** Those that one token's way through the model uses, embeddings included. */
  readonly active: number;
  /** The table that turns tokens into vectors, and (unless it is the same) the matrix that makes logits. */
  readonly embedding: number;
  readonly head: number;
  /** Of all layers, without the experts to choose from ... */
  readonly layers: number;
  /** ... and one of these, in one layer. */
  readonly expert: number;
}

/** Layers with experts. */
export function expertLayers({ experts, layers, denseLayers }: ModelShape): number {
  return experts ? layers - denseLayers : 0;
}

/** Bytes that the weights take, over all devices. */
export function weightBytesOf(shape: ModelShape): number {
  const { parameters, numberBytes, weightBytes, expertWeightBytes, experts } = shape;
  const own = shape.tiedEmbeddings ? parameters.embedding : parameters.embedding + parameters.head;
  const routed = (experts?.count ?? 0) * expertLayers(shape) * parameters.expert;
  return Math.ceil(own * numberBytes + parameters.layers * weightBytes + routed * expertWeightBytes);
}
