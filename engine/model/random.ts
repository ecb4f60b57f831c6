import { xoroshiro128plus } from "pure-rand/generator/xoroshiro128plus";
import { assert, InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import type { DecoderConfig, LayerTensor, ModelTensor, WeightDistribution, WeightSource } from "./decoder.ts";
import { plainFrequencies } from "./rope.ts";
import { elementsOf, layerTensors, modelTensors, parameterCount } from "./tensors.ts";

/** The end token of random models: the first one after the 256 bytes. */
export const randomEndToken = 256;

type Family = Omit<
  DecoderConfig,
  "name" | "layers" | "hidden" | "heads" | "kvHeads" | "headDim" | "ffn" | "vocabulary" | "maxPositions" | "positions"
> & { readonly positions: "rope" | "learned" | "alibi" };

const llama: Family = {
  architecture: "llama",
  norm: { kind: "rms", epsilon: 1e-5 },
  positions: "rope",
  feedForward: "silu-gated",
  biases: { qkv: false, output: false, ffn: false },
  qkNorm: false,
  embeddingNorm: false,
  window: undefined,
  tiedEmbeddings: false,
  endTokens: [randomEndToken],
};

const gpt2: Family = {
  ...llama,
  architecture: "gpt2",
  norm: { kind: "layer", epsilon: 1e-5 },
  positions: "learned",
  feedForward: "gelu-tanh",
  biases: { qkv: true, output: true, ffn: true },
  tiedEmbeddings: true,
};

const families = {
  llama,
  qwen2: { ...llama, architecture: "qwen2", biases: { qkv: true, output: false, ffn: false } },
  qwen3: { ...llama, architecture: "qwen3", norm: { kind: "rms", epsilon: 1e-6 }, qkNorm: true, tiedEmbeddings: true },
  mistral: { ...llama, architecture: "mistral", window: 24 },
  gpt2,
  bloom: { ...gpt2, architecture: "bloom", positions: "alibi", embeddingNorm: true },
} satisfies Record<DecoderConfig["architecture"], Family>;

interface Shape {
  readonly family: Family;
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** `hidden / heads` by default. */
  readonly headDim?: number;
  readonly ffn: number;
  readonly vocabulary: number;
  readonly maxPositions: number;
  readonly theta?: number;
}

const tiny = { layers: 2, hidden: 64, heads: 4, kvHeads: 2, ffn: 128, vocabulary: 512, maxPositions: 131_072 };

/** Sizes of known models, and one small model of every architecture for tests. */
const shapes: Readonly<Record<string, Shape>> = {
  tiny: { family: families.llama, ...tiny },
  "tiny-qwen2": { family: families.qwen2, ...tiny, layers: 3 },
  // Heads wider than hidden / heads, as in Qwen3.
  "tiny-qwen3": { family: families.qwen3, ...tiny, headDim: 32 },
  "tiny-mistral": { family: families.mistral, ...tiny, layers: 3 },
  "tiny-gpt2": { family: families.gpt2, ...tiny, kvHeads: 4, ffn: 256, maxPositions: 1024 },
  // Six heads: ALiBi computes other slopes if their number is not a power of two.
  "tiny-bloom": { family: families.bloom, ...tiny, hidden: 96, heads: 6, kvHeads: 6, ffn: 384 },
  // stories15M of llama2.c.
  "15m": {
    family: { ...families.llama, tiedEmbeddings: true },
    ...{ layers: 6, hidden: 288, heads: 6, kvHeads: 6, ffn: 768, vocabulary: 32_000, maxPositions: 32_768 },
  },
  // JackFram/llama-160m.
  "160m": {
    family: families.llama,
    ...{ layers: 12, hidden: 768, heads: 12, kvHeads: 12, ffn: 3072, vocabulary: 32_000, maxPositions: 32_768 },
  },
  // Qwen/Qwen3-0.6B.
  "0.6b": {
    family: families.qwen3,
    ...{ layers: 28, hidden: 1024, heads: 16, kvHeads: 8, headDim: 128, ffn: 3072, vocabulary: 151_936 },
    ...{ maxPositions: 40_960, theta: 1e6 },
  },
  // meta-llama/Llama-3.1-8B.
  "8b": {
    family: families.llama,
    ...{ layers: 32, hidden: 4096, heads: 32, kvHeads: 8, ffn: 14_336, vocabulary: 128_256 },
    ...{ maxPositions: 131_072, theta: 5e5 },
  },
  // The model of speed comparisons with other engines.
  anchors: {
    family: families.llama,
    ...{ layers: 8, hidden: 512, heads: 8, kvHeads: 4, ffn: 1408, vocabulary: 8192, maxPositions: 8192 },
  },
};

export const randomShapeNames: readonly string[] = Object.keys(shapes);

/**
 * The shape of a model with random weights.
 *
 * @throws InputError that suggests the nearest name, or lists all names.
 */
export function randomConfig(name: string): DecoderConfig {
  if (!Object.hasOwn(shapes, name)) {
    const near = nearest(name, randomShapeNames);
    const hint = near ? `did you mean random:${near}?` : `there are ${randomShapeNames.join(", ")}`;
    throw new InputError(`no random model has the shape "${name}"; ${hint}`);
  }
  const { family, theta = 10_000, ...sizes } = shapes[name];
  const headDim = sizes.headDim ?? sizes.hidden / sizes.heads;
  const { positions: kind, ...rest } = family;
  const positions =
    kind === "rope" ? { kind, inverseFrequencies: plainFrequencies(headDim, theta), factor: 1 } : { kind };
  return { name: `random:${name}`, ...rest, ...sizes, headDim, positions };
}

/**
 * Weights that are a function of the seed, the tensor's name and its layer, so that each tensor can be generated separately and
 * bit-identically on every machine: only integers and one rounding per weight are involved.
 *
 * They are uniformly distributed, with the standard deviation that keeps activations near 1: 1 / √inputs for a projection. Some
 * have a multiple of it (`spreads`), so that a model behaves like a trained one: attention concentrates on a few tokens, the
 * layers' outputs outweigh the embedding, logits differ by several units. Norms are near 1 and biases small but not zero, so
 * that a wrong use of any of them changes the logits.
 */
export function randomWeights(config: DecoderConfig, seed: number): WeightSource {
  const ofModel = new Map(modelTensors(config).map(({ tensor, shape }) => [tensor, shape]));
  const ofLayer = new Map(layerTensors(config).map(({ tensor, shape }) => [tensor, shape]));
  return {
    fingerprint: `random/1 ${config.name} seed ${seed}`,
    model(tensor) {
      if (tensor === "head" && config.tiedEmbeddings) return transposed(this.model("embedding"), config.hidden);
      const shape = ofModel.get(tensor);
      assert(shape !== undefined, `${config.name} has no tensor ${tensor}`);
      return randomTensor(tensor, -1, shape, seed);
    },
    layer(layer, tensor) {
      const shape = ofLayer.get(tensor);
      assert(shape !== undefined && layer < config.layers, `${config.name} has no tensor ${tensor} in layer ${layer}`);
      return randomTensor(tensor, layer, shape, seed);
    },
    ...(parameterCount(config) >= leastGeneratedParameters && {
      distribution(tensor: ModelTensor | LayerTensor, layer: number): WeightDistribution {
        const shape = (layer < 0 ? ofModel.get(tensor as ModelTensor) : ofLayer.get(tensor as LayerTensor))!;
        const [mean, deviation] = distributionOf(tensor, shape);
        return { seed: seedOf(seed, layer, tensor) >>> 0, mean, scale: deviation * Math.sqrt(3) };
      },
    }),
  };
}

/** Models of this size are generated on the device: generating and uploading them takes minutes. */
const leastGeneratedParameters = 4e9;

const spreads: Partial<Record<ModelTensor | LayerTensor, number>> = { query: 2, output: 4, down: 4, head: 2.5 };
/** Means of norms that are not near 1, for the same reasons. */
const means: Partial<Record<ModelTensor | LayerTensor, number>> = { queryNorm: 2, "embeddingNorm.weight": 0.25 };
/** Equal to the head's, because embeddings may be the head. */
const embeddingSpread = 2.5;

function randomTensor(
  tensor: ModelTensor | LayerTensor,
  layer: number,
  shape: readonly number[],
  seed: number,
): Float32Array {
  const [center, spread] = distributionOf(tensor, shape);
  const generator = xoroshiro128plus(seedOf(seed, layer, tensor));
  const scale = (spread * Math.sqrt(3)) / 2 ** 31;
  const values = new Float32Array(elementsOf(shape));
  for (let i = 0; i < values.length; i++) values[i] = center + generator.next() * scale;
  return values;
}

/** Mean and standard deviation. */
function distributionOf(tensor: ModelTensor | LayerTensor, shape: readonly number[]): [number, number] {
  if (tensor.endsWith("bias")) return [0, 0.1];
  if (shape.length === 1) return [means[tensor] ?? 1, 0.1];
  if (tensor === "embedding" || tensor === "positions") return [0, embeddingSpread / Math.sqrt(shape[1])];
  return [0, (spreads[tensor] ?? 1) / Math.sqrt(shape[0])];
}

/** FNV-1a over seed, layer and name. */
function seedOf(seed: number, layer: number, tensor: string): number {
  let hash = 0x811c9dc5;
  const add = (byte: number) => (hash = Math.imul(hash ^ byte, 0x01000193));
  for (const number of [seed, Math.floor(seed / 2 ** 32), layer])
    for (let shift = 0; shift < 32; shift += 8) add((number >> shift) & 255);
  for (let i = 0; i < tensor.length; i++) add(tensor.charCodeAt(i));
  return hash;
}

function transposed(matrix: Float32Array, columns: number): Float32Array {
  const rows = matrix.length / columns;
  const result = new Float32Array(matrix.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) result[column * rows + row] = matrix[row * columns + column];
  return result;
}
