/** Number formats that weights are stored in. */
export const floatBytes = { F32: 4, F16: 2, BF16: 2 } as const;
export type FloatFormat = keyof typeof floatBytes;

/** Converts bfloat16, which is the upper half of a 32-bit float. */
export function fromBfloat16(from: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, from.length);
  for (let i = 0; i < from.length; i++) bits[i] = from[i] << 16;
}

/**
 * Converts IEEE half precision. Exponent and fraction are shifted to their positions in a 32-bit float, and a multiplication
 * corrects the exponent's bias, which is exact for subnormal numbers, too. Infinities and NaNs are converted separately.
 */
export function fromFloat16(from: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, from.length);
  for (let i = 0; i < from.length; i++) {
    const half = from[i];
    bits[i] = ((half & 0x8000) << 16) | ((half & 0x7fff) << 13);
    if ((half & 0x7c00) === 0x7c00) bits[i] |= 0x7f80_0000;
    else into[i] *= 2 ** 112;
  }
}

/** The bits of 32-bit floats as bfloat16, rounded towards 0. */
export const toBfloat16 = (from: Float32Array): Uint16Array =>
  Uint16Array.from(new Uint32Array(from.buffer, from.byteOffset, from.length), (bits) => bits >>> 16);
