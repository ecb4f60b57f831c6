import { expect, test } from "vitest";
import type { DecoderConfig, WeightSource } from "../../../engine/model/decoder.ts";
import { layerTensors } from "../../../engine/model/tensors.ts";
import { quantize, quantizedBlock } from "../../../engine/onnx/quantized.ts";
import { architectures, oddConfig, opened, run, wholeTable } from "../cpu/decoders.ts";
import { referenceLogits, relativeError } from "../reference.ts";

test("a block has its own scale, and the middle value represents 0", () => {
  // Two outputs; 33 inputs are a whole block and one of the next.
  const matrix = new Float32Array(66);
  matrix.set([7, 0, -3.4, 254]);
  matrix[64] = 14;
  const four = quantize(matrix, 33, 2, 4);
  expect([...four.scales]).toEqual([1, 2, Math.fround(254 / 7), 0]);
  // 7 is 15, −3.4 is −3 and so 5, zeros are 8; the first of two numbers is the lower half.
  expect([...four.values.subarray(0, 2)]).toEqual([0x5f, 0x88]);
  expect([...four.values.subarray(16, 18)]).toEqual([0x8f, 0x88]);
  expect([...four.values.subarray(32, 34)]).toEqual([0xf8, 0x88]);
  expect(four.values).toHaveLength(2 * 2 * 16);
  const eight = quantize(matrix, 33, 2, 8);
  expect([...eight.values.subarray(0, 3)]).toEqual([255, 128 - 62, 128]);
  expect([...eight.values.subarray(64, 67)]).toEqual([128, 255, 128]);
  expect(eight.scales[2]).toBe(2);
});

/** The weights after quantization of those in matrix products. */
function rounded(config: DecoderConfig, weights: WeightSource, bits: 8 | 4): WeightSource {
  const back = (matrix: Float32Array, inputs: number, outputs: number) => {
    const { values, scales } = quantize(matrix, inputs, outputs, bits);
    const blocks = Math.ceil(inputs / quantizedBlock);
    return matrix.map((_, i) => {
      const [input, output] = [Math.floor(i / outputs), i % outputs];
      const at = (output * blocks * quantizedBlock + input) * (bits / 8);
      const value = bits === 8 ? values[at] - 128 : ((values[Math.floor(at)] >> (input % 2 ? 4 : 0)) & 15) - 8;
      return value * scales[output * blocks + Math.floor(input / quantizedBlock)];
    });
  };
  const shapes = new Map(layerTensors(config).map(({ tensor, shape }) => [tensor, shape]));
  return {
    fingerprint: "",
    model: (tensor) =>
      tensor === "head" ? back(weights.model("head"), config.hidden, config.vocabulary) : weights.model(tensor),
    layer(layer, tensor) {
      const [inputs, outputs] = shapes.get(tensor)!;
      const values = weights.layer(layer, tensor);
      return outputs === undefined ? values : back(values, inputs, outputs);
    },
  };
}

const cases = architectures.flatMap((name) => [8, 4].map((bits) => [name, bits as 8 | 4] as const));

test.each(cases)(
  "%s with weights of %i bits: close to the quantized float64 reference, bit-identical in any batch",
  async (name, bits) => {
    // The reference computes logits with tied embeddings, which are not quantized.
    const config = oddConfig(name, { tiedEmbeddings: false, maxPositions: 128 });
    const [one, two] = [await opened(config, 64, 1, bits), await opened(config, 64, 2, bits)];
    const tokens = Array.from({ length: 37 }, (_, i) => (i * i * 7 + 3) % config.vocabulary);
    const table = wholeTable(10, 20);
    const [expected] = await run(one, [{ tokens, from: 0, to: 37, table: wholeTable(10) }]);
    const definition = referenceLogits(config, rounded(config, one.weights, bits), tokens);
    // Rows are quantized to 8 bits before a product.
    expect(relativeError(expected, definition[36])).toBeLessThan(0.1);
    for (const cut of [1, 20, 36]) {
      await run(two, [{ tokens, from: 0, to: cut, table, withoutLogits: true }]);
      const other = { tokens: tokens.toReversed(), from: 0, to: 9, table: wholeTable(3, 40) };
      const found = await run(two, [other, { tokens, from: cut, to: 37, table }]);
      expect(found[1]).toEqual(expected);
    }
  },
);
