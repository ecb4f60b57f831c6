import { expect, test } from "vitest";
import { tokensThatFit } from "../../../engine/backend.ts";
import { cpuBackend } from "../../../engine/cpu/backend.ts";
import { tokenBytes, weightBytes } from "../../../engine/cpu/memory.ts";
import { loadModel } from "../../../engine/model/load.ts";
import { randomShapeNames } from "../../../engine/model/random.ts";
import { decoderGraph } from "../../../engine/onnx/decoder.ts";
import type { OnnxBits } from "../../../engine/onnx/quantized.ts";

const small = randomShapeNames.filter((name) => name.startsWith("tiny"));

test.each(small.flatMap((name) => ([32, 8, 4] as const).map((bits): [string, OnnxBits] => [name, bits])))(
  "the weights of %s at %i bits have the size of the converted model",
  (name, bits) => {
    const { config, weights } = loadModel(`random:${name}`);
    const graph = decoderGraph(config, weights, "weights.bin", bits);
    const stored = graph.stored.reduce((bytes, one) => bytes + one.bytes, 0);
    // Small tensors and the operators are in the model itself.
    const model = graph.bytes().length;
    expect(weightBytes(config, bits)).toBeGreaterThanOrEqual(stored);
    expect(weightBytes(config, bits)).toBeLessThan(stored + model);
  },
);

test("worked by hand: two layers of two key heads of width 16, and the tokens that fit beside the weights", () => {
  const { config, parameterCount } = loadModel("random:tiny");
  expect(tokenBytes(config)).toBe(2 * 2 * 2 * 16 * 4);
  expect(weightBytes(config, 32)).toBe(4 * parameterCount);
  // 8 bits and a 32nd of 32.
  const vectors = 64 * (1 + 2 * 2);
  const rounded = parameterCount - 512 * 64 - vectors;
  expect(weightBytes(config, 8)).toBe(4 * (512 * 64 + vectors) + rounded * (1 + 4 / 32));
  expect(tokensThatFit(cpuBackend.memory, config, 32, 4 * parameterCount + 10 * 512 + 511)).toBe(10);
  expect(tokensThatFit(cpuBackend.memory, config, 32, 1000)).toBe(0);
});
