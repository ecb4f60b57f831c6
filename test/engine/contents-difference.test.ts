import { expect, test } from "vitest";
import { blockDifference, rowDifference } from "../../engine/contents/difference.ts";
import { toBfloat16 } from "../../engine/model/floats.ts";

/** A block of 2 layers and 2 tokens, with rows of 2 numbers. */
const shape = { layers: 2, blockTokens: 2 };
const numbers = Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8);
const block = { keys: numbers, values: numbers.map((value) => -value) };

test("a block without a difference has none", () => {
  expect(blockDifference(block, { keys: block.keys.slice(), values: block.values.slice() }, shape, 2)).toBeUndefined();
});

test("the first difference is that of the lowest layer, keys before values", () => {
  const other = { keys: block.keys.with(7, 9), values: block.values.with(3, -5) };
  expect(blockDifference(other, block, shape, 2)).toEqual({
    ...{ what: "values", layer: 0, token: 1, engine: -5, recomputed: -4, relativeError: 0.25 },
  });
  expect(blockDifference({ ...other, values: block.values }, block, shape, 2)).toEqual({
    ...{ what: "keys", layer: 1, token: 1, engine: 9, recomputed: 8, relativeError: 0.125 },
  });
});

test("tokens past the filled part of a block are not compared", () => {
  const other = { ...block, keys: block.keys.with(2, 9) };
  expect(blockDifference(other, block, shape, 1)).toBeUndefined();
  expect(blockDifference(other, block, shape, 2)).toMatchObject({ layer: 0, token: 1 });
});

test("without a tolerance rows are bit-identical: the last bit, the sign of 0 and a NaN are differences", () => {
  const row = Float32Array.of(1, 0, 2);
  expect(rowDifference(row.with(0, Math.fround(1 + 2 ** -23)), row)).toMatchObject({ recomputed: 1 });
  expect(rowDifference(row.with(1, -0), row)).toMatchObject({ engine: -0, recomputed: 0 });
  expect(rowDifference(row.with(2, Number.NaN), row)).toMatchObject({ recomputed: 2 });
  expect(rowDifference(row.with(2, Number.NaN), row.with(2, Number.NaN))).toBeUndefined();
});

test("with a tolerance the largest error is relative to the largest number of the row", () => {
  const row = Float32Array.of(0.5, -4, 1);
  const other = Float32Array.of(0.75, -4, 2);
  expect(rowDifference(other, row, 0.25)).toBeUndefined();
  expect(rowDifference(other, row, 0.2)).toEqual({ engine: 2, recomputed: 1, relativeError: 0.25 });
  expect(rowDifference(Float32Array.of(0.5, Number.NaN, 1), row, 10)).toMatchObject({ recomputed: -4 });
});

test("a row of zeros equals only zeros", () => {
  expect(rowDifference(Float32Array.of(0, -0), Float32Array.of(0, 0), 0.1)).toBeUndefined();
  expect(rowDifference(Float32Array.of(0, 1), Float32Array.of(0, 0), 0.1)).toMatchObject({ engine: 1, recomputed: 0 });
});

test("blocks of bfloat16 are compared as numbers", () => {
  const bits = { keys: toBfloat16(block.keys), values: toBfloat16(block.values) };
  const rounded = { ...bits, keys: toBfloat16(block.keys.with(5, 6.03125)) };
  expect(blockDifference(rounded, bits, shape, 2, 0.01)).toBeUndefined();
  expect(blockDifference(rounded, bits, shape, 2)).toEqual({
    ...{ what: "keys", layer: 1, token: 0, engine: 6.03125, recomputed: 6, relativeError: 0.03125 / 6 },
  });
});
