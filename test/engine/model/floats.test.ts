import { expect, test } from "vitest";
import { fromBfloat16, fromFloat16, toBfloat16 } from "../../../engine/model/floats.ts";

const all = Uint16Array.from({ length: 65_536 }, (_, i) => i);

/** A number by the definition of its format: sign, exponent, fraction. All are exact in a double. */
function defined(bits: number, fractionBits: number, bias: number): number {
  const sign = bits >> 15 === 0 ? 1 : -1;
  const exponent = (bits & 0x7fff) >> fractionBits;
  const fraction = (bits & (2 ** fractionBits - 1)) / 2 ** fractionBits;
  if (exponent === 2 * bias + 1) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** (1 - bias) : sign * (1 + fraction) * 2 ** (exponent - bias);
}

function differences(found: Float32Array, fractionBits: number, bias: number): string[] {
  return [...all]
    .filter((bits) => !Object.is(found[bits], defined(bits, fractionBits, bias)))
    .map((bits) => `${bits.toString(16)}: ${found[bits]}`);
}

test("each of the 65,536 bfloat16 numbers becomes the 32-bit float of equal value", () => {
  const found = new Float32Array(all.length);
  fromBfloat16(all, found);
  expect(differences(found, 7, 127)).toEqual([]);
});

test("each of the 65,536 half-precision numbers becomes the 32-bit float of equal value", () => {
  const found = new Float32Array(all.length);
  fromFloat16(all, found);
  expect(differences(found, 10, 15)).toEqual([]);
});

test("well-known numbers", () => {
  const found = new Float32Array(4);
  fromFloat16(Uint16Array.of(0x3c00, 0xc000, 0x7bff, 0x0001), found);
  expect([...found]).toEqual([1, -2, 65_504, 2 ** -24]);
  fromBfloat16(Uint16Array.of(0x3f80, 0xc000, 0x4049, 0x0001), found);
  expect([...found]).toEqual([1, -2, 3.140625, 2 ** -133]);
});

test("32-bit floats become equal bfloat16 numbers, or the next ones towards 0", () => {
  const floats = new Float32Array(all.length);
  fromBfloat16(all, floats);
  const numbers = all.filter((_, i) => !Number.isNaN(floats[i]));
  expect(toBfloat16(floats.filter((value) => !Number.isNaN(value)))).toEqual(numbers);
  expect(toBfloat16(Float32Array.of(1.999, -1.999))).toEqual(Uint16Array.of(0x3fff, 0xbfff));
});
