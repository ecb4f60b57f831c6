import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { DecoderConfig, WeightSource } from "../../../engine/model/decoder.ts";
import { randomConfig, randomShapeNames, randomWeights } from "../../../engine/model/random.ts";
import { elementsOf, layerTensors, modelTensors, parameterCount } from "../../../engine/model/tensors.ts";

/** Every tensor's numbers as bytes, in order. */
function hashOf(config: DecoderConfig, weights: WeightSource): string {
  const hash = createHash("sha256");
  const add = (values: Float32Array) => hash.update(new Uint8Array(values.buffer));
  for (const { tensor } of modelTensors(config)) add(weights.model(tensor));
  for (let layer = 0; layer < config.layers; layer++)
    for (const { tensor } of layerTensors(config)) add(weights.layer(layer, tensor));
  return hash.digest("hex").slice(0, 16);
}

test("sizes are those of the models that they are named after", () => {
  const millions = Object.fromEntries(
    randomShapeNames.map((name) => [name, Number((parameterCount(randomConfig(name)) / 1e6).toFixed(1))]),
  );
  expect(millions).toMatchObject({ "15m": 15.2, "160m": 162.4, "0.6b": 596, "8b": 8030.3, anchors: 32 });
});

test("the shape of the speed comparisons", () => {
  expect(randomConfig("anchors")).toMatchObject({
    ...{ layers: 8, hidden: 512, heads: 8, kvHeads: 4, headDim: 64, ffn: 1408, vocabulary: 8192 },
  });
});

test("there is a small model of every architecture", () => {
  const tiny = randomShapeNames.filter((name) => name.startsWith("tiny")).map(randomConfig);
  expect(tiny.map(({ architecture }) => architecture)).toEqual(["llama", "qwen2", "qwen3", "mistral", "gpt2", "bloom"]);
  for (const config of tiny) expect(parameterCount(config)).toBeLessThan(300_000);
});

test("the weights are the same on every machine", () => {
  const hashes = Object.fromEntries(
    randomShapeNames
      .filter((name) => name.startsWith("tiny"))
      .map((name) => [name, hashOf(randomConfig(name), randomWeights(randomConfig(name), 1))]),
  );
  expect(hashes).toEqual({
    tiny: "f2b1918c5ea1eac0",
    "tiny-qwen2": "f9caf2c102f497e1",
    "tiny-qwen3": "d7ecd1eafc64dfcf",
    "tiny-mistral": "2cd5a9796e12df87",
    "tiny-gpt2": "4b5d71cc30e2fa3e",
    "tiny-bloom": "294cf70fd78dca08",
  });
});

test("only a large model states its distributions, from which a device generates it", () => {
  expect(randomWeights(randomConfig("0.6b"), 1).distribution).toBeUndefined();
  const { distribution } = randomWeights(randomConfig("8b"), 1);
  const query = distribution!("query", 3);
  expect(query.mean).toBe(0);
  expect(query.scale).toBeCloseTo((2 / Math.sqrt(4096)) * Math.sqrt(3));
  expect(query.seed).not.toBe(distribution!("query", 4).seed);
  expect(distribution!("embedding", -1).scale).toBeCloseTo((2.5 / Math.sqrt(4096)) * Math.sqrt(3));
});

test("a tensor does not depend on tensors that were read before", () => {
  const config = randomConfig("tiny-gpt2");
  const names = layerTensors(config).map(({ tensor }) => tensor);
  const used = randomWeights(config, 5);
  fc.assert(
    fc.property(fc.nat(config.layers - 1), fc.constantFrom(...names), (layer, tensor) => {
      expect(used.layer(layer, tensor)).toEqual(randomWeights(config, 5).layer(layer, tensor));
    }),
  );
});

test("seeds, layers and tensors all differ", () => {
  const config = randomConfig("tiny");
  const [a, b] = [randomWeights(config, 1), randomWeights(config, 2)];
  const far = randomWeights(config, 1 + 2 ** 32);
  const tensors = [
    ...[a, b, far].map((weights) => weights.layer(0, "key")),
    a.layer(1, "key"),
    a.layer(0, "value"),
  ].map((values) => values.join());
  expect(new Set(tensors).size).toBe(tensors.length);
  expect(new Set([a, b, far].map(({ fingerprint }) => fingerprint)).size).toBe(3);
});

test("every tensor has the length of its shape and its standard deviation", () => {
  const multiples: Record<string, number> = { query: 2, output: 4, down: 4 };
  for (const name of ["tiny-qwen3", "tiny-bloom", "tiny-gpt2"]) {
    const config = randomConfig(name);
    const weights = randomWeights(config, 1);
    for (const { tensor, shape } of layerTensors(config)) {
      const values = weights.layer(0, tensor);
      expect(values.length).toBe(elementsOf(shape));
      if (shape.length === 1) continue;
      const spread = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
      const expected = (multiples[tensor] ?? 1) / Math.sqrt(shape[0]);
      expect(spread / expected).toBeGreaterThan(0.95);
      expect(spread / expected).toBeLessThan(1.05);
    }
  }
});

test("a tied head is the transposed embedding", () => {
  const config = randomConfig("tiny-qwen3");
  const weights = randomWeights(config, 1);
  const [embedding, head] = [weights.model("embedding"), weights.model("head")];
  expect(head[3 * config.vocabulary + 17]).toBe(embedding[17 * config.hidden + 3]);
  expect(head.length).toBe(embedding.length);
});
