import fc from "fast-check";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "./emulation/build.ts";
import { checks } from "./emulation/checks.ts";
import { Device, float } from "./emulation/device.ts";
import { floats, largestError, randomBfloat16, toBfloat16 } from "./emulation/numbers.ts";

/** A result rounded to bf16. */
const rounded = 0.005;
const exact = 1e-6;

/** Widths of rows: with and without whole vectors, and with one or two eights of elements a thread. */
const rowWidths = fc.oneof(fc.integer({ min: 2, max: 300 }), fc.constantFrom(8, 256, 264, 512));

let device: Device;
beforeAll(async () => {
  if (canEmulate) device = new Device(await emulatorLibrary());
}, buildTimeoutMs);
afterEach(() => device?.reset());

const floatsFrom = (address: bigint, count: number) => device.download(new Float32Array(count), address);
const bitsFrom = (address: bigint, count: number) => device.download(new Uint16Array(count), address);
const numbersFrom = (address: bigint, count: number) => floats(bitsFrom(address, count));
const residualOf = (count: number, seed: number) => Float32Array.from(floats(randomBfloat16(count, seed)));
const rowOf = <T extends { subarray(from: number, to: number): T }>(values: T, row: number, width: number) =>
  values.subarray(row * width, (row + 1) * width);

describe.runIf(canEmulate)("kernels of rows", () => {
  test("embed adds the position's embedding to the token's", () => {
    const [H, vocabulary, positions] = [40, 11, 7];
    const [table, positionTable] = [randomBfloat16(vocabulary * H, 1), randomBfloat16(positions * H, 2)];
    const [tokens, places] = [Int32Array.of(10, 0, 3), Int32Array.of(6, 2, 0)];
    const x = device.allocate(3 * H * 4);
    const [tokenList, placeList, tableAt] = [tokens, places, table].map((values) => device.upload(values));
    const [tokenValues, placeValues] = [table, positionTable].map(floats);
    const expected = (withPositions: boolean) =>
      [...tokens].flatMap((token, row) =>
        Array.from({ length: H }, (_, i) => {
          const place = withPositions ? placeValues[places[row] * H + i] : 0;
          return tokenValues[token * H + i] + place;
        }),
      );
    device.run("embed", [3], 32, [x, tokenList, placeList, tableAt, null, H]);
    expect(largestError(floatsFrom(x, 3 * H), expected(false))).toBe(0);
    device.run("embed", [3], 64, [x, tokenList, placeList, tableAt, device.upload(positionTable), H]);
    expect(largestError(floatsFrom(x, 3 * H), expected(true))).toBeLessThan(exact);
  });

  test("rms_norm adds to the residual stream and normalises; with rows, the rows of logits only", () => {
    fc.assert(
      fc.property(rowWidths, fc.boolean(), fc.boolean(), (H, withAdd, withBias) => {
        const T = 4;
        const [x, add, bias] = [residualOf(T * H, 1), randomBfloat16(T * H, 2), randomBfloat16(H, 3)];
        const weight = randomBfloat16(H, 4);
        const [addValues, biasValues, weightValues] = [add, bias, weight].map(floats);
        const rows = [2, 0];
        const residual = device.upload(x);
        const out = device.allocate(T * H * 2);
        const added = withAdd ? device.upload(add) : null;
        const addedBias = withBias ? device.upload(bias) : null;
        const list = device.upload(Int32Array.from(rows));
        const parameters = [out, residual, added, addedBias, device.upload(weight), list, H, float(1e-5)];
        device.run("rms_norm", [rows.length], 32, parameters);
        const stored = floatsFrom(residual, T * H);
        const found = numbersFrom(out, rows.length * H);
        for (const [i, row] of rows.entries()) {
          const sums = Array.from(rowOf(x, row, H), (value, j) => {
            const extra = withAdd ? addValues[row * H + j] + (withBias ? biasValues[j] : 0) : 0;
            return value + extra;
          });
          const mean = sums.reduce((total, value) => total + value * value, 0) / H;
          const expected = sums.map((value, j) => (value / Math.sqrt(mean + 1e-5)) * weightValues[j]);
          expect(largestError(rowOf(stored, row, H), sums)).toBeLessThan(exact);
          expect(largestError(rowOf(found, i, H), expected)).toBeLessThan(rounded);
        }
        expect(rowOf(stored, 1, H)).toEqual(rowOf(x, 1, H));
        device.reset();
      }),
      { numRuns: 20 },
    );
  });

  test("layer_norm adds to the residual stream and normalises; without an output it replaces the residual stream", () => {
    fc.assert(
      fc.property(rowWidths, fc.boolean(), (H, withOut) => {
        const T = 3;
        const [x, add, bias] = [residualOf(T * H, 1), randomBfloat16(T * H, 2), randomBfloat16(H, 3)];
        const [weight, addBias] = [randomBfloat16(H, 4), randomBfloat16(H, 5)];
        const [addValues, biasValues, weightValues, addBiasValues] = [add, bias, weight, addBias].map(floats);
        const residual = device.upload(x);
        const out = withOut ? device.allocate(T * H * 2) : null;
        const [addAt, addBiasAt, weightAt, biasAt] = [add, addBias, weight, bias].map((values) =>
          device.upload(values),
        );
        device.run("layer_norm", [T], H > 300 ? 32 : 96, [
          out,
          residual,
          addAt,
          addBiasAt,
          weightAt,
          biasAt,
          null,
          H,
          float(1e-5),
        ]);
        const found = out === null ? floatsFrom(residual, T * H) : numbersFrom(out, T * H);
        for (let row = 0; row < T; row++) {
          const sums = Array.from(rowOf(x, row, H), (value, j) => value + addValues[row * H + j] + addBiasValues[j]);
          const mean = sums.reduce((total, value) => total + value, 0) / H;
          const variance = sums.reduce((total, value) => total + (value - mean) ** 2, 0) / H;
          const scale = 1 / Math.sqrt(variance + 1e-5);
          const expected = sums.map((value, j) => (value - mean) * scale * weightValues[j] + biasValues[j]);
          expect(largestError(found.subarray(row * H, (row + 1) * H), expected)).toBeLessThan(rounded);
        }
        device.reset();
      }),
      { numRuns: 20 },
    );
  });

  test("rope_table is exact at positions up to a million", () => {
    const D = 32;
    const positions = Int32Array.of(0, 1, 4095, 131_071, 1_048_576);
    const frequencies = Float64Array.from({ length: D / 2 }, (_, i) => 10_000 ** ((-2 * i) / D));
    const out = device.allocate(positions.length * D * 4);
    const [places, inverse] = [positions, frequencies].map((values) => device.upload(values));
    device.run("rope_table", [1], 128, [out, places, inverse, float(1.5), positions.length, D]);
    const expected = [...positions].flatMap((position) =>
      [...frequencies].flatMap((frequency) => [
        1.5 * Math.cos(position * frequency),
        1.5 * Math.sin(position * frequency),
      ]),
    );
    expect(largestError(floatsFrom(out, positions.length * D), expected)).toBeLessThan(exact);
  });

  const heads = fc.record({
    Hq: fc.integer({ min: 1, max: 5 }),
    Hkv: fc.integer({ min: 1, max: 3 }),
    D: fc.constantFrom(16, 48, 80, 128, 256),
    withBias: fc.boolean(),
    withNorm: fc.boolean(),
    withRope: fc.boolean(),
  });

  test("qkv_store adds biases, normalises, rotates, and writes keys and values to their slots; slot −1 is not written", () => {
    fc.assert(
      fc.property(heads, ({ Hq, Hkv, D, withBias, withNorm, withRope }) => {
        const [T, slotCount] = [3, 9];
        const slots = Int32Array.of(7, -1, 2);
        const all = Hq + 2 * Hkv;
        const [qkv, bias] = [randomBfloat16(T * all * D, 1), randomBfloat16(all * D, 2)];
        const norms = [randomBfloat16(D, 3), randomBfloat16(D, 4)];
        const [qkvValues, biasValues, ...normValues] = [qkv, bias, ...norms].map(floats);
        const angles = Float32Array.from({ length: T * D }, (_, i) => (i % 2 ? Math.sin(i) : Math.cos(i + 1)));
        const pool = new Uint16Array(slotCount * Hkv * D).fill(0x4120);
        const [row, keys, values] = [qkv, pool, pool].map((bits) => device.upload(bits));
        const [q, k] = withNorm ? norms.map((bits) => device.upload(bits)) : [null, null];
        const parameters = [
          ...[row, withBias ? device.upload(bias) : null, q, k, withRope ? device.upload(angles) : null],
          ...[device.upload(slots), keys, values, Hq, Hkv, D, float(1e-6)],
        ];
        device.run("qkv_store", [T, Math.ceil(all / 4)], 128, parameters);

        const expected = (t: number, head: number): number[] => {
          const isValue = head >= Hq + Hkv;
          const at = (t * all + head) * D;
          let x = Array.from({ length: D }, (_, i) => qkvValues[at + i] + (withBias ? biasValues[head * D + i] : 0));
          if (withNorm && !isValue) {
            const scale = 1 / Math.sqrt(x.reduce((sum, value) => sum + value * value, 0) / D + 1e-6);
            x = x.map((value, i) => value * scale * normValues[head < Hq ? 0 : 1][i]);
          }
          if (!withRope || isValue) return x;
          return x.map((value, i) => {
            const pair = i % (D / 2);
            const [cosine, sine] = angles.subarray(t * D + 2 * pair, t * D + 2 * pair + 2);
            return i < D / 2 ? value * cosine - x[i + D / 2] * sine : value * cosine + x[i - D / 2] * sine;
          });
        };
        const queries = numbersFrom(row, T * all * D);
        const expectedPools = [0, 1].map(() => floats(pool));
        for (let t = 0; t < T; t++)
          for (let head = 0; head < all; head++) {
            if (head < Hq)
              expect(largestError(rowOf(queries, t * all + head, D), expected(t, head))).toBeLessThan(2 * rounded);
            else if (slots[t] >= 0) {
              const kvHead = (head - Hq) % Hkv;
              expectedPools[head < Hq + Hkv ? 0 : 1].set(expected(t, head), (slots[t] * Hkv + kvHead) * D);
            }
          }
        for (const [i, address] of [keys, values].entries())
          expect(largestError(numbersFrom(address, pool.length), expectedPools[i])).toBeLessThan(2 * rounded);
        device.reset();
      }),
      { numRuns: 25 },
    );
  });

  test("silu_gate and gelu are close to their definitions for any width", () => {
    for (const F of [8, 37, 1024, 1029, 2056]) {
      const [T, gateUp, bias] = [2, randomBfloat16(4 * F, 1), randomBfloat16(F, 2)];
      const grid = [T, Math.ceil(F / 1024)];
      const [x, biasValues] = [gateUp, bias].map(floats);
      const out = device.allocate(T * F * 2);
      device.run("silu_gate", grid, 128, [out, device.upload(gateUp), F]);
      const gated = Array.from({ length: T * F }, (_, i) => {
        const at = Math.floor(i / F) * 2 * F + (i % F);
        return (x[at] / (1 + Math.exp(-x[at]))) * x[at + F];
      });
      expect(largestError(numbersFrom(out, T * F), gated)).toBeLessThan(rounded);
      for (const approximation of [0, 1])
        for (const withBias of [false, true]) {
          const at = device.upload(gateUp.slice(0, T * F));
          device.run("gelu", grid, 128, [at, withBias ? device.upload(bias) : null, F, approximation]);
          const expected = Array.from({ length: T * F }, (_, i) => {
            const value = x[i] + (withBias ? biasValues[i % F] : 0);
            return approximation ? tanhGelu(value) : (value / 2) * (1 + erf(value / Math.SQRT2));
          });
          expect(largestError(numbersFrom(at, T * F), expected)).toBeLessThan(rounded);
        }
      device.reset();
    }
  });

  test("fill_random has the bits of the same function on the host", () => {
    const count = 3000;
    const [seed, mean, scale] = [77, 0.5, 0.03];
    const out = device.allocate(count * 2);
    device.run("fill_random", [2], 64, [out, count, seed, float(mean), float(scale)]);
    const expected = Uint16Array.from({ length: count }, (_, i) => {
      const u = Math.fround((mixed(mixed(i ^ seed)) >>> 8) * 2 ** -23 - 1);
      return toBfloat16(Math.fround(mean) + Math.fround(Math.fround(scale) * u));
    });
    expect(bitsFrom(out, count)).toEqual(expected);
  });
});

describe.runIf(canEmulate)("xor_words", () => {
  test("reads every word once", () => {
    const words = Int32Array.from({ length: 4 * 777 }, (_, i) => Math.imul(i + 1, 0x9e3779b1));
    const out = device.allocate(3 * 4);
    device.run("xor_words", [3], 64, [out, device.upload(words), words.length / 4]);
    const found = device.download(new Int32Array(3), out);
    const xor = (numbers: Int32Array) => numbers.reduce((all, one) => all ^ one, 0);
    expect(xor(found)).toBe(xor(words));
  });
});

describe.runIf(canEmulate)("matrix product", () => {
  test("gemm is close to the definition for any shape, transposed or not, and rows do not depend on the batch", () => {
    const size = fc.integer({ min: 1, max: 150 });
    fc.assert(
      fc.property(size, size, size, fc.boolean(), fc.boolean(), (M, N, K, transposed, outFloat) => {
        const [a, b] = [randomBfloat16(M * K, 1), randomBfloat16(K * N, 2)];
        const [A, B] = [device.upload(a), device.upload(b)];
        const product = (rows: number) => {
          const C = device.allocate(rows * N * 4);
          const grid = [Math.ceil(N / 64), Math.ceil(rows / 64)];
          device.run("gemm", grid, 128, [C, A, B, rows, N, K, Number(transposed), Number(outFloat)]);
          return outFloat ? Float64Array.from(floatsFrom(C, rows * N)) : numbersFrom(C, rows * N);
        };
        const [x, y] = [floats(a), floats(b)];
        const expected = Array.from({ length: M * N }, (_, i) => {
          const [row, column] = [Math.floor(i / N), i % N];
          let sum = 0;
          for (let k = 0; k < K; k++) sum += x[row * K + k] * (transposed ? y[column * K + k] : y[k * N + column]);
          return sum;
        });
        const found = product(M);
        expect(largestError(found, expected)).toBeLessThan(outFloat ? 1e-5 : rounded);
        expect(product(1)).toEqual(found.subarray(0, N));
        device.reset();
      }),
      { numRuns: 20 },
    );
  });
});

describe.runIf(canEmulate)("any order of warps and blocks", () => {
  test.each(Object.entries(checks))("%s is correct", (_name, check) => {
    for (let seed = 0; seed < 8; seed++) {
      device.setWarpOrder(seed);
      expect(check(device), `warp order ${seed}`).toBe(true);
    }
    device.setWarpOrder(0);
  });
});

describe.runIf(canEmulate)("kernels of blocks", () => {
  const [layers, blockCount, blockElements] = [3, 5, 48];
  const layerElements = blockCount * blockElements;
  const sizes = [blockElements, layerElements];
  const [keys, values] = [randomBfloat16(layers * layerElements, 1), randomBfloat16(layers * layerElements, 2)];
  const blockOf = (pool: Uint16Array, layer: number, block: number) =>
    rowOf(pool.subarray(layer * layerElements), block, blockElements);

  test("copy_blocks copies keys and values of all layers, and nothing else", () => {
    const [keysAt, valuesAt] = [device.upload(keys), device.upload(values)];
    device.run("copy_blocks", [2, layers], 32, [keysAt, valuesAt, device.upload(Int32Array.of(4, 1, 0, 2)), ...sizes]);
    for (const [address, before] of [
      [keysAt, keys],
      [valuesAt, values],
    ] as const) {
      const after = bitsFrom(address, layers * layerElements);
      for (let layer = 0; layer < layers; layer++)
        for (const [block, source] of [0, 4, 0, 3, 4].entries())
          expect(blockOf(after, layer, block)).toEqual(blockOf(before, layer, source));
    }
  });

  test("gather_blocks and scatter_blocks move blocks to other numbers without a change", () => {
    const [keysAt, valuesAt] = [device.upload(keys), device.upload(values)];
    const staging = device.allocate(2 * 2 * layers * blockElements * 2);
    const gather = [staging, keysAt, valuesAt, device.upload(Int32Array.of(3, 1)), ...sizes, layers];
    device.run("gather_blocks", [2, layers], 32, gather);
    const staged = bitsFrom(staging, 4 * layers * blockElements);
    expect(rowOf(staged, 1, blockElements)).toEqual(blockOf(keys, 1, 3));
    expect(rowOf(staged, layers, blockElements)).toEqual(blockOf(values, 0, 3));
    const scatter = [staging, keysAt, valuesAt, device.upload(Int32Array.of(0, 4)), ...sizes, layers];
    device.run("scatter_blocks", [2, layers], 32, scatter);
    for (const [address, before] of [
      [keysAt, keys],
      [valuesAt, values],
    ] as const) {
      const after = bitsFrom(address, layers * layerElements);
      for (let layer = 0; layer < layers; layer++)
        for (const [block, source] of [3, 1, 2, 3, 1].entries())
          expect(blockOf(after, layer, block)).toEqual(blockOf(before, layer, source));
    }
  });
});

function mixed(x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return (x ^ (x >>> 16)) >>> 0;
}

const tanhGelu = (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** By its Taylor series; the arguments are within [−2, 2]. */
function erf(x: number): number {
  let [sum, term] = [x, x];
  for (let n = 1; n < 60; n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}
