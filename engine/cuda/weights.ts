import type { DecoderConfig, LayerTensor, ModelTensor, WeightDistribution, WeightSource } from "../model/decoder.ts";
import { elementsOf, layerTensors, modelTensors } from "../model/tensors.ts";

/** Tensors of a layer on the device: query, key and value are one matrix, and so are gate and up. */
export type DeviceLayerTensor =
  | Exclude<LayerTensor, "query" | "key" | "value" | "query.bias" | "key.bias" | "value.bias" | "gate" | "up">
  | "qkv" // [hidden, (heads + 2 · kvHeads) · headDim]
  | "qkv.bias"
  | "up"; // [hidden, ffn], or gate and up, [hidden, 2 · ffn]

/** A tensor on the device: bf16 elements at `offset` bytes from the start of the weights. */
export interface DeviceTensor {
  readonly offset: number;
  readonly elements: number;
  /** Its elements, from the model's weights. */
  read(weights: WeightSource): Uint16Array;
  /** Its distribution, if the weights are random and generated on the device; that of a joined matrix is that of its first part. */
  distribution(weights: WeightSource): WeightDistribution | undefined;
}

/** The places of all weights in one allocation. */
export interface WeightLayout {
  readonly bytes: number;
  readonly model: ReadonlyMap<ModelTensor, DeviceTensor>;
  readonly layers: readonly ReadonlyMap<DeviceLayerTensor, DeviceTensor>[];
}

/** Tensors begin at multiples of this, so that kernels and cuBLAS read 16 bytes at a time. */
const alignment = 256;

/** The layout is a function of the configuration, so that both threads of an executor compute the same one. */
export function weightLayout(config: DecoderConfig): WeightLayout {
  let bytes = 0;
  const place = (
    elements: number,
    read: DeviceTensor["read"],
    tensor: ModelTensor | LayerTensor,
    layer = -1,
  ): DeviceTensor => {
    const offset = bytes;
    bytes = Math.ceil((bytes + 2 * elements) / alignment) * alignment;
    return { offset, elements, read, distribution: (weights) => weights.distribution?.(tensor, layer) };
  };
  const model = new Map(
    modelTensors(config).map(({ tensor, shape }) => [
      tensor,
      place(elementsOf(shape), (weights) => roundToBfloat16(weights.model(tensor)), tensor),
    ]),
  );
  const layers = Array.from({ length: config.layers }, (_, layer) => {
    const shapes = new Map(layerTensors(config).map(({ tensor, shape }) => [tensor, shape]));
    const tensors = new Map<DeviceLayerTensor, DeviceTensor>();
    for (const [tensor, shape] of shapes) {
      const name = fusedNames[tensor] ?? (tensor as DeviceLayerTensor);
      const parts = (fused[name] ?? [tensor]).filter((part) => shapes.has(part));
      if (tensors.has(name)) continue;
      const rows = shape.length === 1 ? 1 : shape[0];
      const elements = parts.reduce((sum, part) => sum + elementsOf(shapes.get(part)!), 0);
      const read = (weights: WeightSource) => joined(parts, rows, (part) => weights.layer(layer, part));
      tensors.set(name, place(elements, read, parts[0], layer));
    }
    return tensors;
  });
  return { bytes, model, layers };
}

const fused: { readonly [Name in DeviceLayerTensor]?: readonly LayerTensor[] } = {
  qkv: ["query", "key", "value"],
  "qkv.bias": ["query.bias", "key.bias", "value.bias"],
  up: ["gate", "up"],
};

const fusedNames = Object.fromEntries(
  Object.entries(fused).flatMap(([name, parts]) => parts.map((part) => [part, name])),
) as { readonly [Name in LayerTensor]?: DeviceLayerTensor };

/** Matrices with the same rows, side by side. */
function joined(parts: readonly LayerTensor[], rows: number, read: (part: LayerTensor) => Float32Array): Uint16Array {
  if (parts.length === 1) return roundToBfloat16(read(parts[0]));
  const matrices = parts.map((part) => roundToBfloat16(read(part)));
  const width = matrices.reduce((sum, matrix) => sum + matrix.length / rows, 0);
  const result = new Uint16Array(rows * width);
  let column = 0;
  for (const matrix of matrices) {
    const own = matrix.length / rows;
    for (let row = 0; row < rows; row++) result.set(matrix.subarray(row * own, (row + 1) * own), row * width + column);
    column += own;
  }
  return result;
}

/** The bits of finite 32-bit floats as bfloat16, rounded to nearest, ties to even. */
export function roundToBfloat16(from: Float32Array): Uint16Array {
  const bits = new Uint32Array(from.buffer, from.byteOffset, from.length);
  const result = new Uint16Array(bits.length);
  for (let i = 0; i < bits.length; i++) result[i] = (bits[i] + 0x7fff + ((bits[i] >>> 16) & 1)) >>> 16;
  return result;
}
