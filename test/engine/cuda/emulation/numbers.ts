// bf16 numbers and random arrays for kernel tests.
import { chanceOf } from "../../../../core/random.ts";

/** The nearest bf16 bits, ties to even. */
export function toBfloat16(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0];
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

function fromBfloat16(bits: number): number {
  return new Float32Array(Uint32Array.of(bits << 16).buffer)[0];
}

export const floats = (bits: Uint16Array): Float64Array => Float64Array.from(bits, fromBfloat16);

/** Numbers uniform in [−1, 1) that are bf16 values. */
export function randomBfloat16(count: number, seed: number): Uint16Array {
  return Uint16Array.from({ length: count }, (_, i) => toBfloat16(2 * chanceOf(seed, i) - 1));
}

/** Largest difference, absolute or relative to the expected magnitude above 1. */
export function largestError(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let largest = actual.length === expected.length ? 0 : Number.POSITIVE_INFINITY;
  for (let i = 0; i < expected.length; i++) {
    const error = Math.abs(actual[i] - expected[i]) / Math.max(1, Math.abs(expected[i]));
    if (!(error <= largest)) largest = Number.isNaN(error) ? Number.POSITIVE_INFINITY : error;
  }
  return largest;
}
