import { statSync } from "node:fs";
import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { byteCodec } from "./byte-codec.ts";
import { Checkpoint } from "./checkpoint.ts";
import { readConfig } from "./config.ts";
import type { DecoderConfig, WeightSource } from "./decoder.ts";
import { randomConfig, randomShapeNames, randomWeights } from "./random.ts";
import { parameterCount } from "./tensors.ts";
import { readTokenizer, type TextCodec } from "./tokenizer.ts";

/** A model: its configuration, and a source of its weights. */
export interface LoadedModel {
  readonly config: DecoderConfig;
  readonly weights: WeightSource;
  readonly parameterCount: number;
  /** Size of the weights' files; for a random model that of its weights as 32-bit floats. */
  readonly bytes: number;
  /** Read by the first call, because serving a trace needs no text. */
  tokenizer(): Promise<TextCodec>;
  /** Closes the files. */
  close(): void;
}

/** Whether the name is that of a model with random weights. */
export const isRandom = (model: string): boolean => model === "random" || model.startsWith("random:");

/**
 * Opens a model by `random:NAME`, `random:NAME:SEED` or the path of a folder in the Hugging Face layout.
 *
 * @throws InputError of one line with the file, the value found and the expected one.
 */
export function loadModel(model: string): LoadedModel {
  return isRandom(model) ? randomModel(model) : folderModel(model);
}

function randomModel(model: string): LoadedModel {
  const [, name = "", seed = "1", ...rest] = model.split(":");
  if (!/^\d{1,15}$/.test(seed) || rest.length > 0)
    throw new InputError(`the model is "${model}", expected random:NAME or random:NAME:SEED with a seed of digits`);
  const config = randomConfig(name);
  const count = parameterCount(config);
  return {
    config,
    weights: randomWeights(config, Number(seed)),
    parameterCount: count,
    bytes: 4 * count,
    tokenizer: async () => byteCodec,
    close() {},
  };
}

function folderModel(folder: string): LoadedModel {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    const near = nearest(
      folder,
      randomShapeNames.flatMap((name) => [name, `random:${name}`]),
    );
    const hint = near
      ? `did you mean random:${near.replace("random:", "")}?`
      : `expected a folder with config.json, or random:NAME with one of ${randomShapeNames.join(", ")}`;
    throw new InputError(`no model folder ${folder}; ${hint}`);
  }
  const config = readConfig(folder);
  const weights = new Checkpoint(folder, config);
  let tokenizer: Promise<TextCodec> | undefined;
  return {
    config,
    weights,
    parameterCount: parameterCount(config),
    bytes: weights.bytes,
    tokenizer: () => (tokenizer ??= readTokenizer(folder, config.vocabulary)),
    close: () => weights.close(),
  };
}
