// Checks of kernels that are short enough to run against many builds: each returns whether the results are correct.
import { AttentionBatch, type AttentionShape } from "./attention.ts";
import { type Device, float } from "./device.ts";
import { floats, largestError, randomBfloat16 } from "./numbers.ts";

export const checkedHeadDimension = 16;

const shape: AttentionShape = {
  sequences: [
    { cached: 70, queries: 40 },
    { cached: 33, queries: 1 },
    { cached: 0, queries: 67 },
    { cached: 21, queries: 1 },
  ],
  heads: 4,
  kvHeads: 2,
  headDim: checkedHeadDimension,
  blockTokens: 5,
};
const tolerance = 0.006;
const width = shape.heads * shape.headDim;

function prefill(device: Device): boolean {
  const batch = new AttentionBatch(device, shape);
  return largestError(floats(batch.prefill()), batch.expected()) < tolerance;
}

function decode(device: Device): boolean {
  const batch = new AttentionBatch(device, shape);
  const [found, expected] = [floats(batch.decode(2, 2)), batch.expected()];
  return [40, 108].every((row) => {
    const [from, to] = [row * width, (row + 1) * width];
    return largestError(found.subarray(from, to), expected.subarray(from, to)) < tolerance;
  });
}

function copyBlocks(device: Device): boolean {
  const [keys, values] = [randomBfloat16(64, 1), randomBfloat16(64, 2)];
  const [keysAt, valuesAt] = [keys, values].map((bits) => device.upload(bits));
  device.run("copy_blocks", [1, 2], 32, [keysAt, valuesAt, device.upload(Int32Array.of(0, 3)), 8, 32]);
  return [keysAt, valuesAt].every((address) => {
    const after = device.download(new Uint16Array(64), address);
    return [0, 32].every((layer) => `${after.slice(layer, layer + 8)}` === `${after.slice(layer + 24, layer + 32)}`);
  });
}

function layerNorm(device: Device): boolean {
  const H = 50;
  const x = Float32Array.from(floats(randomBfloat16(H, 1)));
  const [at, one] = [device.upload(x), device.upload(new Uint16Array(H).fill(0x3f80))];
  device.run("layer_norm", [1], 64, [null, at, null, null, one, null, null, H, float(1e-5)]);
  const mean = x.reduce((sum, value) => sum + value, 0) / H;
  const deviation = Math.sqrt(x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / H + 1e-5);
  const expected = x.map((value) => (value - mean) / deviation);
  return largestError(device.download(new Float32Array(H), at), expected) < 1e-5;
}

/** The most likely token; the logits fill their allocation to its last byte. */
function argmax(device: Device): boolean {
  const V = 999;
  const logits = Float32Array.from({ length: V }, (_, i) => -Math.abs(i - 700));
  const out = device.allocate(4);
  device.run("argmax_rows", [1], 128, [out, device.upload(logits), V]);
  return device.download(new Int32Array(1), out)[0] === 700;
}

/** Sampling of one of the two most likely tokens. Rows differ, so that values that an earlier row left behind are wrong. */
function topK(device: Device): boolean {
  const [V, rows] = [700, 8];
  const rankOf = (row: number, token: number) => (token + 97 * row) % V;
  const logits = Float32Array.from({ length: V * rows }, (_, i) => {
    const row = Math.floor(i / V);
    return ((row + 1) * rankOf(row, i % V)) / V;
  });
  const parameters = new Uint32Array(8 * rows);
  const [temperature, topP] = [0x42480000, 0x3f800000]; // 50 and 1 as floats
  for (let row = 0; row < rows; row++) parameters.set([temperature, topP, 0, 2, 1, 0, row, 0], 8 * row);
  const out = device.allocate(4 * rows);
  const parametersAt = device.upload(new Uint8Array(parameters.buffer));
  device.run("sample_rows", [rows], 128, [out, device.upload(logits), parametersAt, V]);
  const tokens = device.download(new Int32Array(rows), out);
  return tokens.every((token, row) => token >= 0 && rankOf(row, token) >= V - 2);
}

export const checks = { prefill, decode, copyBlocks, layerNorm, argmax, topK };
