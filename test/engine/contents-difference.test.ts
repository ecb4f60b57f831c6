import { expect, test } from "vitest";
import { blockDifference, rowDifference } from "../../engine/contents/difference.ts";
import { toBfloat16 } from "../../engine/model/floats.ts";

/** A block of 2 layers and 2 tokens, with rows of 2 numbers. */
const shape = { layers: 2, blockTokens: 2 };
const numbers = Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8);
const block = { keys: numbers, values: numbers.map((value) => -value) };
const never = () => false;

test("a block without a difference has none", () => {
  expect(
    blockDifference(block, { keys: block.keys.slice(), values: block.values.slice() }, shape, 2, never),
  ).toBeUndefined();
});

test("the first difference is that of the lowest layer, keys before values", () => {
  const other = { keys: block.keys.with(7, 9), values: block.values.with(3, -5) };
  expect(blockDifference(other, block, shape, 2, never)).toEqual({
    ...{ what: "values", layer: 0, token: 1, engine: -5, recomputed: -4, relativeError: 0.25 },
  });
  expect(blockDifference({ ...other, values: block.values }, block, shape, 2, never)).toEqual({
    ...{ what: "keys", layer: 1, token: 1, engine: 9, recomputed: 8, relativeError: 0.125 },
  });
});

test("tokens past the filled part of a block are not compared", () => {
  const other = { ...block, keys: block.keys.with(2, 9) };
  expect(blockDifference(other, block, shape, 1, never)).toBeUndefined();
  expect(blockDifference(other, block, shape, 2, never)).toMatchObject({ layer: 0, token: 1 });
});

test("rows whose difference is accepted are not the first difference", () => {
  const other = { keys: block.keys.with(7, 9), values: block.values.with(3, -5) };
  const errors: number[] = [];
  const difference = blockDifference(other, block, shape, 2, ({ relativeError }) => {
    errors.push(relativeError);
    return relativeError > 0.2;
  });
  expect(difference).toMatchObject({ what: "keys", layer: 1 });
  expect(errors).toEqual([0.25, 0.125]);
});

test("only bit-identical rows have no difference: the last bit, the sign of 0 and a NaN are differences", () => {
  const row = Float32Array.of(1, 0, 2);
  expect(rowDifference(row.with(0, Math.fround(1 + 2 ** -23)), row)).toMatchObject({ recomputed: 1 });
  expect(rowDifference(row.with(1, -0), row)).toEqual({ engine: -0, recomputed: 0, relativeError: 0 });
  expect(rowDifference(row.with(2, Number.NaN), row)).toMatchObject({ recomputed: 2, relativeError: Number.NaN });
  expect(rowDifference(row.with(2, Number.NaN), row.with(2, Number.NaN))).toBeUndefined();
});

test("the largest error of a row is relative to its largest number", () => {
  const row = Float32Array.of(0.5, -4, 1);
  expect(rowDifference(Float32Array.of(0.75, -4, 2), row)).toEqual({ engine: 2, recomputed: 1, relativeError: 0.25 });
});

test("a row of zeros has an infinite error in any other number", () => {
  expect(rowDifference(Float32Array.of(0, 1), Float32Array.of(0, 0))).toMatchObject({
    engine: 1,
    relativeError: Infinity,
  });
});

test("blocks of bfloat16 are compared as numbers", () => {
  const bits = { keys: toBfloat16(block.keys), values: toBfloat16(block.values) };
  const rounded = { ...bits, keys: toBfloat16(block.keys.with(5, 6.03125)) };
  expect(blockDifference(bits, bits, shape, 2, never)).toBeUndefined();
  expect(blockDifference(rounded, bits, shape, 2, never)).toEqual({
    ...{ what: "keys", layer: 1, token: 0, engine: 6.03125, recomputed: 6, relativeError: 0.03125 / 6 },
  });
});
