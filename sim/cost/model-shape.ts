/**
 * The sizes of a model that step times and memory depend on. Parameters are counted over all layers together, norms and biases
 * included.
 */
export interface ModelShape {
  readonly name: string;
  readonly layers: number;
  readonly hidden: number;
  readonly vocabulary: number;
  /** Query heads. A query and a key have `keyDim` numbers, a value has `valueDim`. */
  readonly heads: number;
  readonly kvHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  /** Numbers stored per token and layer: keys and values of all KV heads, or (MLA) the latent vector and the rotary key. */
  readonly kvNumbers: number;
  /** MLA: length of the latent vector, which all heads share and tensor parallelism replicates. */
  readonly latentDim?: number | undefined;
  /** Number of leading layers with a dense feed-forward network, and its inner width. */
  readonly denseLayers: number;
  readonly ffn: number;
  /** Mixture of experts in the other layers: `active` routed experts per token, and `shared` ones for every token. */
  readonly experts?: ExpertShape | undefined;
  /** Number of sliding-window layers, and their window. */
  readonly window?: { readonly tokens: number; readonly layers: number } | undefined;
  readonly tiedEmbeddings: boolean;
  readonly parameters: ParameterCounts;
  /** Bytes of a number that is not quantised: embeddings, activations, KV. */
  readonly numberBytes: number;
  /** Bytes per parameter of the layers' matrices, scales of quantised weights included. */
  readonly weightBytes: number;
  readonly expertWeightBytes: number;
  /** Type of matrix products: `fp8` if weights and activations are quantised to it, else the model's type. */
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
  /** All parameters. */
  readonly total: number;
  /** Parameters that one token uses, embeddings included. */
  readonly active: number;
  /** The token embedding, and the output head (the same matrix if embeddings are tied). */
  readonly embedding: number;
  readonly head: number;
  /** All layers, without routed experts. */
  readonly layers: number;
  /** One routed expert of one layer. */
  readonly expert: number;
}

/** Number of layers with experts. */
export function expertLayers({ experts, layers, denseLayers }: ModelShape): number {
  return experts ? layers - denseLayers : 0;
}

/** Parameters of the feed-forward networks of all layers, routers and shared experts included, without routed experts. */
export function feedForwardParameters(shape: ModelShape): number {
  const { hidden, denseLayers, ffn, experts } = shape;
  const perExpertLayer = experts ? hidden * (experts.count + 3 * experts.shared * experts.ffn) : 0;
  return denseLayers * 3 * hidden * ffn + expertLayers(shape) * perExpertLayer;
}

/**
 * Bytes of the weights on one device: the share of a replica's `tensorParallel` devices, of routed experts that of the devices of
 * all `dataParallel` replicas.
 */
export function deviceWeightBytes(shape: ModelShape, tensorParallel: number, dataParallel: number): number {
  const routed = routedWeightBytes(shape);
  return (weightBytesOf(shape) - routed) / tensorParallel + routed / (tensorParallel * dataParallel);
}

const routedWeightBytes = (shape: ModelShape) =>
  (shape.experts?.count ?? 0) * expertLayers(shape) * shape.parameters.expert * shape.expertWeightBytes;

/** Bytes of all weights, over all devices. */
export function weightBytesOf(shape: ModelShape): number {
  const { parameters, numberBytes, weightBytes } = shape;
  const own = shape.tiedEmbeddings ? parameters.embedding : parameters.embedding + parameters.head;
  return Math.ceil(own * numberBytes + parameters.layers * weightBytes + routedWeightBytes(shape));
}
