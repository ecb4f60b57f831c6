/** Bits of stored weights: 32-bit floats, or integers of 8 or 4 bits with a scale per block. */
export type OnnxBits = 32 | 8 | 4;

/** Number of inputs that share a scale. */
export const quantizedBlock = 32;

export interface Quantized {
  /** [outputs, blocks, block · bits / 8]; of two 4-bit numbers in a byte the lower half is the first. */
  readonly values: Uint8Array;
  /** [outputs, blocks] */
  readonly scales: Float32Array;
}

/**
 * Quantizes a matrix [inputs, outputs] to `bits`, with one scale for each output and block of inputs, symmetrically about
 * 2^(bits − 1), which represents 0: the layout of ONNX Runtime's MatMulNBits.
 */
export function quantize(matrix: Float32Array, inputs: number, outputs: number, bits: 8 | 4): Quantized {
  const blocks = Math.ceil(inputs / quantizedBlock);
  const blockBytes = (quantizedBlock * bits) / 8;
  const middle = 2 ** (bits - 1);
  const values = new Uint8Array(outputs * blocks * blockBytes).fill(bits === 8 ? middle : middle * 17);
  const scales = new Float32Array(outputs * blocks);
  const largest = new Float32Array(outputs);
  for (let block = 0; block < blocks; block++) {
    const first = block * quantizedBlock;
    const end = Math.min(inputs, first + quantizedBlock);
    largest.fill(0);
    for (let input = first, i = first * outputs; input < end; input++)
      for (let output = 0; output < outputs; output++, i++)
        largest[output] = Math.max(largest[output], Math.abs(matrix[i]));
    for (let output = 0; output < outputs; output++) scales[output * blocks + block] = largest[output] / (middle - 1);
    for (let input = first, i = first * outputs; input < end; input++)
      for (let output = 0; output < outputs; output++, i++) {
        const scale = scales[output * blocks + block];
        const rounded = scale === 0 ? 0 : Math.round(matrix[i] / scale);
        const start = (output * blocks + block) * blockBytes;
        const place = input - first;
        if (bits === 8) values[start + place] = middle + rounded;
        else values[start + (place >> 1)] += (place & 1 ? 16 : 1) * rounded;
      }
  }
  return { values, scales };
}
