import fc from "fast-check";
import { snappyCompress } from "hyparquet-writer/src/snappy.js";
import { expect, test } from "vitest";
import { unpackSnappy } from "../../../traces/parquet/snappy.ts";

/** Bytes with repetitions, which are compressed to copies. */
const repetitive = fc
  .array(fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 80 }), fc.integer({ min: 1, max: 40 })), { maxLength: 8 })
  .map((pieces) => Buffer.concat(pieces.flatMap(([bytes, times]) => Array<Uint8Array>(times).fill(bytes))));

test("the output of a Snappy compressor is decompressed to its input", () => {
  const property = fc.property(repetitive, (bytes) => {
    expect(Buffer.from(unpackSnappy(snappyCompress(bytes), bytes.length)).equals(bytes)).toBe(true);
  });
  fc.assert(property);
});

test("any bytes are decompressed to the stated size, or refused", () => {
  const property = fc.property(fc.uint8Array({ maxLength: 40 }), fc.nat({ max: 100 }), (bytes, size) => {
    try {
      expect(unpackSnappy(Uint8Array.of(size, ...bytes), size)).toHaveLength(size);
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError);
    }
  });
  fc.assert(property, { numRuns: 10_000 });
});

test("a literal of 2^31 bytes or more, and a copy from before the first byte, are refused", () => {
  expect(() => unpackSnappy(Uint8Array.of(4, 63 << 2, 250, 255, 255, 255, 1, 2, 3), 4)).toThrow("more than 4 bytes");
  expect(() => unpackSnappy(Uint8Array.of(5, 0, 7, 1, 2), 5)).toThrow("a copy from 2 bytes back, expected 1 to 1");
});
