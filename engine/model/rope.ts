/** Rotary position embedding without scaling: 1 / theta^(2i / headDim) for each pair of dimensions i. */
export function plainFrequencies(headDim: number, theta: number): Float64Array {
  return Float64Array.from({ length: headDim / 2 }, (_, i) => theta ** ((-2 * i) / headDim));
}
