import { afterAll, beforeAll } from "vitest";
import { driverVariable } from "../../../engine/cuda/driver.ts";
import { PagedDecoder, type PagedDecoderOptions } from "../../../engine/cuda/paged-decoder.ts";
import { roundToBfloat16, weightLayout } from "../../../engine/cuda/weights.ts";
import type { DeviceSampling } from "../../../engine/executor.ts";
import type { DecoderConfig, LayerTensor, ModelTensor, WeightSource } from "../../../engine/model/decoder.ts";
import { fromBfloat16 } from "../../../engine/model/floats.ts";
import { randomConfig, randomWeights } from "../../../engine/model/random.ts";
import { type Part, stepOf } from "../cpu/decoders.ts";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "./emulation/build.ts";

export { architectures, blockTokens, type Part, stepOf, wholeTable } from "../cpu/decoders.ts";
export { canEmulate } from "./emulation/build.ts";

const open: PagedDecoder[] = [];

/** The tests of a file run on the emulated driver. */
export function useEmulator(): void {
  const before = process.env[driverVariable];
  beforeAll(async () => {
    if (canEmulate) process.env[driverVariable] = await emulatorLibrary();
  }, buildTimeoutMs);
  afterAll(() => {
    for (const decoder of open.splice(0)) decoder.close();
    if (before === undefined) delete process.env[driverVariable];
    else process.env[driverVariable] = before;
  });
}

export interface Opened {
  readonly config: DecoderConfig;
  /** As 32-bit floats, before they are rounded. */
  readonly weights: WeightSource;
  readonly decoder: PagedDecoder;
}

/** A decoder with random weights, in this thread; closed after the tests of the file. */
export function opened(
  config: DecoderConfig,
  { seed = 1, blockCount = 64, blockTokens = 4, graphs = true }: Partial<PagedDecoderOptions> & { seed?: number } = {},
): Opened {
  const weights = randomWeights(config, seed);
  const decoder = PagedDecoder.open({ config, blockCount, blockTokens, graphs });
  open.push(decoder);
  const { model, layers } = weightLayout(config);
  for (const tensors of [model, ...layers])
    for (const { offset, read } of tensors.values()) decoder.writeWeights(offset, read(weights));
  decoder.loaded();
  return { config, weights, decoder };
}

/** The architecture in the size of the models `random:tiny…`. */
export const tinyConfig = (name: string): DecoderConfig => randomConfig(`tiny${name === "llama" ? "" : `-${name}`}`);

/** The weights as the device has them. */
export function roundedWeights(weights: WeightSource): WeightSource {
  const rounded = (values: Float32Array) => {
    const result = new Float32Array(values.length);
    fromBfloat16(roundToBfloat16(values), result);
    return result;
  };
  return {
    fingerprint: `${weights.fingerprint}, rounded`,
    model: (tensor: ModelTensor) => rounded(weights.model(tensor)),
    layer: (layer: number, tensor: LayerTensor) => rounded(weights.layer(layer, tensor)),
  };
}

/** Logits after the last token of each part with logits. */
export function run({ decoder, config }: Opened, parts: readonly Part[]): Float32Array[] {
  const { logits } = decoder.executeStep(stepOf(parts));
  const { vocabulary } = config;
  return Array.from({ length: logits.length / vocabulary }, (_, i) =>
    logits.slice(i * vocabulary, (i + 1) * vocabulary),
  );
}

export const greedy: DeviceSampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0, position: 0 };
