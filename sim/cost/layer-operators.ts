import type { Matrix } from "./matrix-time.ts";
import { expertLayers, feedForwardParameters, type ModelShape } from "./model-shape.ts";

/** A matrix of several layers, as one of the devices that share the model has it. */
export interface LayerMatrix extends Matrix {
  readonly name: string;
  readonly layers: number;
}

/** An elementwise kernel of several layers: numbers that it reads and writes per token on one device. */
export interface LayerKernel {
  readonly name: string;
  readonly layers: number;
  readonly numbers: number;
}

/**
 * The matrices of all layers but the routed experts: queries, keys and values in one, the output of attention, gate and up in one,
 * and down. The projections of multi-head latent attention count as one square-like matrix with as many parameters. The first
 * matrix of each pair is divided by outputs among the devices, the second one by inputs.
 */
export function layerMatrices(shape: ModelShape, devices = 1): LayerMatrix[] {
  const { layers, hidden, heads, kvHeads, keyDim, valueDim, latentDim, denseLayers, ffn, experts } = shape;
  const feedForward = (name: string, layers: number, inner: number): LayerMatrix[] => [
    { name: `${name}gate_up_proj`, layers, outputs: (2 * inner) / devices, inputs: hidden },
    { name: `${name}down_proj`, layers, outputs: hidden, inputs: inner / devices },
  ];
  const groups = Math.max(1, kvHeads / devices);
  const attention: LayerMatrix[] =
    latentDim === undefined
      ? [
          {
            name: "qkv_proj",
            layers,
            outputs: (heads * keyDim) / devices + groups * (keyDim + valueDim),
            inputs: hidden,
          },
          { name: "o_proj", layers, outputs: hidden, inputs: (heads * valueDim) / devices },
        ]
      : [{ name: "latent_proj", layers, outputs: latentParameters(shape) / hidden / devices, inputs: hidden }];
  const dense = denseLayers > 0 ? feedForward("", denseLayers, ffn) : [];
  const shared = experts && experts.shared > 0 ? experts.shared * experts.ffn : 0;
  return [...attention, ...dense, ...(shared > 0 ? feedForward("shared_", expertLayers(shape), shared) : [])];
}

/** Parameters of one layer's latent attention: those of all layers that are in no other matrix. */
function latentParameters(shape: ModelShape): number {
  return (shape.parameters.layers - feedForwardParameters(shape)) / shape.layers;
}

/**
 * The elementwise kernels of all layers, fused as in common engines: a norm with its residual sum (four hidden vectors), rotary
 * embedding (queries and keys), and the product of gate and up (three inner vectors). Norms are computed on every device.
 */
export function layerKernels(shape: ModelShape, devices = 1): LayerKernel[] {
  const { layers, hidden, heads, kvHeads, keyDim, denseLayers, ffn, experts } = shape;
  const rotated = (2 * (heads + kvHeads) * keyDim) / devices;
  const kernels = [
    { name: "layernorm", layers: 2 * layers, numbers: 4 * hidden },
    { name: "rotary_emb", layers, numbers: rotated },
    { name: "act_fn", layers: denseLayers, numbers: (3 * ffn) / devices },
  ];
  if (experts && experts.shared > 0)
    kernels.push({
      name: "shared_act_fn",
      layers: expertLayers(shape),
      numbers: (3 * experts.shared * experts.ffn) / devices,
    });
  return kernels.filter((kernel) => kernel.layers > 0);
}
