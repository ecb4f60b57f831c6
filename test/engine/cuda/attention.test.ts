import fc from "fast-check";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { AttentionBatch, type AttentionShape, type SequenceShape } from "./emulation/attention.ts";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "./emulation/build.ts";
import { Device } from "./emulation/device.ts";
import { floats, largestError } from "./emulation/numbers.ts";

/** Rounding of probabilities and outputs to bf16, of values within [−1, 1]. */
const tolerance = 0.006;
const headDimensions = [16, 32, 48, 64, 80, 96, 128, 256];

let device: Device;
beforeAll(async () => {
  if (canEmulate) device = new Device(await emulatorLibrary());
}, buildTimeoutMs);
afterEach(() => device?.reset());

const sequence = (cached: number, queries: number): SequenceShape => ({ cached, queries });
const base: AttentionShape = { sequences: [], heads: 4, kvHeads: 2, headDim: 32, blockTokens: 16 };

function expectPrefill(shape: AttentionShape): Uint16Array {
  const batch = new AttentionBatch(device, shape);
  const bits = batch.prefill();
  expect(largestError(floats(bits), batch.expected())).toBeLessThan(tolerance);
  return bits;
}

function expectDecode(shape: AttentionShape, splits: number, G: number): Uint16Array {
  const batch = new AttentionBatch(device, shape);
  const bits = batch.decode(splits, G);
  expect(largestError(floats(bits), batch.expected())).toBeLessThan(tolerance);
  return bits;
}

describe.runIf(canEmulate)("attention", () => {
  test.each(headDimensions)("prefill over a cached prefix is close to the definition for heads of %i", (headDim) => {
    expectPrefill({ ...base, headDim, sequences: [sequence(0, 5), sequence(37, 70), sequence(130, 1)] });
  });

  test.each(headDimensions)("decode is close to the definition for heads of %i and groups of 1 to 8", (headDim) => {
    for (const [G, group] of [
      [1, 1],
      [2, 2],
      [4, 3],
      [8, 8],
    ]) {
      const shape = { ...base, headDim, heads: 2 * group, sequences: [sequence(70, 1), sequence(6, 1)] };
      expectDecode(shape, 2, G);
      device.reset();
    }
  });

  test("any block size, prefix, window and ALiBi is close to the definition", () => {
    const shapes = fc.record({
      sequences: fc.array(fc.record({ cached: fc.nat(90), queries: fc.integer({ min: 1, max: 80 }) }), {
        minLength: 1,
        maxLength: 3,
      }),
      kvHeads: fc.integer({ min: 1, max: 2 }),
      group: fc.integer({ min: 1, max: 3 }),
      headDim: fc.constantFrom(16, 32),
      blockTokens: fc.constantFrom(1, 3, 7, 16, 64),
      window: fc.constantFrom(0, 0, 1, 5, 64, 100),
      alibi: fc.boolean(),
    });
    fc.assert(
      fc.property(shapes, fc.integer({ min: 1, max: 4 }), ({ group, ...shape }, splits) => {
        const whole = { ...shape, heads: group * shape.kvHeads };
        expectPrefill(whole);
        expectDecode({ ...whole, sequences: whole.sequences.map(({ cached }) => sequence(cached, 1)) }, splits, 4);
        device.reset();
      }),
      { numRuns: 20 },
    );
  });

  test("a row of prefill has the same bits for any chunk, batch and physical blocks", () => {
    const length = 150;
    const width = base.heads * base.headDim;
    for (const alibi of [false, true])
      for (const window of [0, 40]) {
        const shape = { ...base, alibi, window };
        const whole = expectPrefill({ ...shape, sequences: [sequence(0, length)] });
        for (const cut of [1, 64, 65, 149]) {
          const others = [sequence(10, 30), sequence(0, 64)];
          const tail = new AttentionBatch(device, {
            ...shape,
            sequences: [others[0], sequence(cut, length - cut), others[1]],
            contents: [5, 0, 6],
            placement: cut,
          }).prefill();
          const rows = tail.subarray(30 * width, (30 + length - cut) * width);
          expect(rows, `cut at ${cut}`).toEqual(whole.subarray(cut * width));
          const blocks = new AttentionBatch(device, {
            ...shape,
            blockTokens: 3,
            sequences: [sequence(0, cut)],
          }).prefill();
          expect(blocks, `first ${cut}`).toEqual(whole.subarray(0, cut * width));
        }
        device.reset();
      }
  });

  test("a row of decode has the same bits for any batch, physical blocks and group size", () => {
    const width = base.heads * base.headDim;
    for (const splits of [1, 3]) {
      const alone = expectDecode({ ...base, sequences: [sequence(199, 1)] }, splits, 2);
      const shape = {
        ...base,
        blockTokens: 7,
        sequences: [sequence(20, 1), sequence(199, 1)],
        contents: [3, 0],
        placement: 4,
      };
      expect(new AttentionBatch(device, shape).decode(splits, 2).subarray(width)).toEqual(alone);
      expect(new AttentionBatch(device, shape).decode(splits, 1).subarray(width)).toEqual(alone);
    }
  });

  test("more splits than keys are close to the definition", () => {
    expectDecode({ ...base, sequences: [sequence(2, 1), sequence(700, 1)] }, 20, 2);
  });

  test("the order of warps and blocks does not change a bit", () => {
    const shape = { ...base, headDim: 64, sequences: [sequence(70, 70), sequence(3, 1)] };
    const results = [0, 1, 2, 3, 4].map((seed) => {
      device.setWarpOrder(seed);
      const batch = new AttentionBatch(device, shape);
      return [batch.prefill(), batch.decode(2, 2)];
    });
    device.setWarpOrder(0);
    for (const result of results) expect(result).toEqual(results[0]);
  });
});
