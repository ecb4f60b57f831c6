import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { InputError } from "../../../core/errors.ts";
import { byteCodec } from "../../../engine/model/byte-codec.ts";
import { loadModel } from "../../../engine/model/load.ts";
import { randomConfig, randomWeights } from "../../../engine/model/random.ts";
import { checkpointOf, folderOf } from "../../support/checkpoints.ts";
import { bytePairTokenizer } from "../../support/tokenizers.ts";

function failure(model: string): string {
  try {
    loadModel(model).close();
  } catch (error) {
    expect(error).toBeInstanceOf(InputError);
    return (error as Error).message;
  }
  return "nothing: it did not fail";
}

test("a random model has the named shape, weights of seed 1 by default, and bytes as tokens", async () => {
  const model = loadModel("random:tiny");
  expect(model).toMatchObject({ config: randomConfig("tiny"), parameterCount: 139_584, bytes: 4 * 139_584 });
  expect(model.weights.fingerprint).toBe(loadModel("random:tiny:1").weights.fingerprint);
  expect(model.weights.fingerprint).not.toBe(loadModel("random:tiny:2").weights.fingerprint);
  expect(await model.tokenizer()).toBe(byteCodec);
  model.close();
});

test("a model folder is read from its files", async () => {
  const config = randomConfig("tiny-qwen2");
  const weights = randomWeights(config, 4);
  const files = { "tokenizer.json": bytePairTokenizer };
  const folder = checkpointOf(config, weights, { format: "F32", shards: 2, files });
  const model = loadModel(folder);
  expect(model.config).toEqual({ ...config, name: model.config.name });
  expect(model.parameterCount).toBe(176_960);
  const sizes = [1, 2].map((i) => statSync(join(folder, `model-0000${i}-of-00002.safetensors`)).size);
  expect(model.bytes).toBe(sizes[0] + sizes[1]);
  expect(model.weights.layer(2, "key.bias")).toEqual(weights.layer(2, "key.bias"));
  expect((await model.tokenizer()).decode([258, 111])).toBe("hello");
  expect(await model.tokenizer()).toBe(await model.tokenizer());
  model.close();
});

test("weights load without a tokenizer; only text requires one", async () => {
  const config = randomConfig("tiny");
  const folder = checkpointOf(config, randomWeights(config, 1));
  const model = loadModel(folder);
  expect(model.weights.model("norm.weight").length).toBe(64);
  await expect(model.tokenizer()).rejects.toThrow(new InputError(`${folder}/tokenizer.json: no such file`));
  model.close();
});

test("an unknown name is refused with the nearest one, or all", () => {
  expect(failure("random:tinny")).toBe('no random model has the shape "tinny"; did you mean random:tiny?');
  expect(failure("random:7b-chat")).toMatch(/^no random model has the shape "7b-chat"; there are tiny, .*, anchors$/);
  expect(failure("random:toString")).toMatch(/^no random model has the shape "toString"/);
  expect(failure("random")).toMatch(/^no random model has the shape ""/);
  expect(failure("tiny")).toBe("no model folder tiny; did you mean random:tiny?");
  expect(failure("randon:160m")).toBe("no model folder randon:160m; did you mean random:160m?");
  expect(failure("/no/where/at/all")).toMatch(
    /^no model folder \/no\/where\/at\/all; expected a folder with config\.json, or random:NAME with one of tiny, /,
  );
});

test("a seed that is not a number is refused", () => {
  const expected = "expected random:NAME or random:NAME:SEED with a seed of digits";
  expect(failure("random:tiny:x")).toBe(`the model is "random:tiny:x", ${expected}`);
  expect(failure("random:tiny:1:2")).toBe(`the model is "random:tiny:1:2", ${expected}`);
});

test("a folder without config.json is no model", () => {
  const folder = folderOf({});
  expect(failure(folder)).toBe(`${folder}/config.json: no such file`);
});
