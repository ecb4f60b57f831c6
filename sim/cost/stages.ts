import { feedForwardParameters, type ModelShape } from "./model-shape.ts";

/** Layers of one stage of a pipeline. The first stage has the embedding, the last one the output head and the sampler. */
export interface Stage {
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** A whole model. */
export const wholeModel: Stage = { isFirst: true, isLast: true };

export interface ModelStage extends Stage {
  /** The model with the layers, embedding and output head of this stage only. */
  readonly shape: ModelShape;
}

/**
 * Divides a model into stages. Each has as many layers; one layer more, if they are not divisible, is in the last stages except the
 * very last one, which has the output head.
 *
 * Source: `get_pp_indices` in vllm/distributed/utils.py.
 */
export function stagesOf(shape: ModelShape, count: number): readonly ModelStage[] {
  if (count === 1) return [{ ...wholeModel, shape }];
  const rest = shape.layers % count;
  let from = 0;
  return Array.from({ length: count }, (_, stage) => {
    const isLonger = stage < count - 1 && stage >= count - 1 - rest;
    const layers = Math.floor(shape.layers / count) + (isLonger ? 1 : 0);
    const ends = { isFirst: stage === 0, isLast: stage === count - 1 };
    const part = { ...ends, shape: stageShape(shape, from, layers, ends) };
    from += layers;
    return part;
  });
}

/** Sliding-window layers are spread evenly over the model; layers without experts are the first ones. */
function stageShape(shape: ModelShape, from: number, layers: number, { isFirst, isLast }: Stage): ModelShape {
  const { parameters, window, tiedEmbeddings } = shape;
  const to = from + layers;
  const windowsBefore = (layer: number) => Math.round(((window?.layers ?? 0) * layer) / shape.layers);
  const stage = {
    ...shape,
    layers,
    denseLayers: Math.max(0, Math.min(shape.denseLayers, to) - from),
    window: window && { ...window, layers: windowsBefore(to) - windowsBefore(from) },
  };
  const attention = (parameters.layers - feedForwardParameters(shape)) / shape.layers;
  return {
    ...stage,
    tiedEmbeddings: false,
    parameters: {
      ...parameters,
      layers: layers * attention + feedForwardParameters(stage),
      embedding: isFirst ? parameters.embedding : 0,
      head: isLast ? (tiedEmbeddings ? parameters.embedding : parameters.head) : 0,
    },
  };
}
