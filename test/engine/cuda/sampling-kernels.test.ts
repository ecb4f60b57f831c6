import fc from "fast-check";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { chanceOf } from "../../../core/random.ts";
import type { DeviceSampling } from "../../../engine/executor.ts";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "./emulation/build.ts";
import { Device } from "./emulation/device.ts";

let device: Device;
beforeAll(async () => {
  if (canEmulate) device = new Device(await emulatorLibrary());
}, buildTimeoutMs);
afterEach(() => device?.reset());

const greedy: DeviceSampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0, position: 0 };

function argmaxRows(rows: readonly (readonly number[])[]): number[] {
  const out = device.allocate(4 * rows.length);
  device.run("argmax_rows", [rows.length], 256, [out, device.upload(Float32Array.from(rows.flat())), rows[0].length]);
  return [...device.download(new Int32Array(rows.length), out)];
}

/** Samples each row of logits with its parameters. */
function sampleRows(logits: readonly ArrayLike<number>[], parameters: readonly DeviceSampling[]): number[] {
  const V = logits[0].length;
  const rows = new DataView(new ArrayBuffer(32 * logits.length));
  for (const [i, { temperature, topP, minP, topK, seed, position }] of parameters.entries()) {
    for (const [j, value] of [temperature, topP, minP].entries()) rows.setFloat32(32 * i + 4 * j, value, true);
    rows.setInt32(32 * i + 12, topK, true);
    rows.setBigInt64(32 * i + 16, BigInt(seed), true);
    rows.setUint32(32 * i + 24, position, true);
  }
  const all = new Float32Array(V * logits.length);
  for (const [i, row] of logits.entries()) all.set(Float32Array.from(row), i * V);
  const out = device.allocate(4 * logits.length);
  const rowsAt = device.upload(new Uint8Array(rows.buffer));
  device.run("sample_rows", [logits.length], V > 1000 ? 1024 : 64, [out, device.upload(all), rowsAt, V]);
  const tokens = [...device.download(new Int32Array(logits.length), out)];
  device.reset();
  return tokens;
}

/** Probabilities after the filters, in the order of engine/sampling.ts: temperature, top-k, top-p, min-p. */
function filtered(logits: readonly number[], { temperature, topK, topP, minP }: DeviceSampling): number[] {
  const most = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp((logit - most) / temperature));
  const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b);
  const inTopK = order.slice(0, topK || undefined);
  const sum = inTopK.reduce((total, token) => total + weights[token], 0);
  const kept: number[] = [];
  let total = 0;
  for (const token of inTopK) {
    if (total >= topP * sum || weights[token] < minP) break;
    total += weights[token];
    kept.push(token);
  }
  return logits.map((_, token) => (kept.includes(token) ? weights[token] / total : 0));
}

describe.runIf(canEmulate)("sampling kernels", () => {
  test("argmax_rows and greedy sampling return the largest logit, the lowest token of equal ones", () => {
    const wide = Array.from({ length: 3000 }, (_, i) => chanceOf(1, i));
    wide[2077] = wide[2999] = 3;
    const negated = wide.map((value) => -value);
    expect(argmaxRows([wide, negated])).toEqual([2077, negated.indexOf(Math.max(...negated))]);
    expect(sampleRows([wide], [greedy])).toEqual([2077]);
  });

  test("a largest logit that is not finite gives −1", () => {
    const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;
    const rows = [
      [0, nan, 1],
      [0, infinity, 1],
      [-infinity, -infinity, -infinity],
      [-infinity, 2, 1],
    ];
    expect(argmaxRows(rows)).toEqual([-1, -1, -1, 1]);
    const all = rows.map(() => ({ ...greedy, temperature: 1 }));
    expect(sampleRows(rows, all).map((token) => (token < 0 ? -1 : 0))).toEqual([-1, -1, -1, 0]);
  });

  test("only tokens that pass the filters are sampled, and all of them are", () => {
    const shapes = fc.record({
      logits: fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 12 }),
      temperature: fc.constantFrom(0.5, 1, 2),
      topK: fc.integer({ min: 0, max: 14 }),
      topP: fc.constantFrom(0.3, 0.77, 0.95, 1),
      minP: fc.constantFrom(0, 0.07, 0.5, 1),
    });
    fc.assert(
      fc.property(shapes, ({ logits, ...filters }) => {
        const draws = 60;
        const parameters = Array.from({ length: draws }, (_, position) => ({ ...filters, seed: -5, position }));
        const expected = filtered(logits, parameters[0]);
        const tokens = sampleRows(
          parameters.map(() => logits),
          parameters,
        );
        for (const token of tokens) expect(expected[token]).toBeGreaterThan(0);
        for (const [token, chance] of expected.entries()) if (chance > 0.25) expect(tokens).toContain(token);
      }),
      { numRuns: 30 },
    );
  });

  test("the k most likely of a large vocabulary, with the lowest tokens of equal ones", () => {
    const logits = Array.from({ length: 2500 }, (_, i) => Math.floor(chanceOf(3, i) * 40));
    const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b);
    const topK = 97;
    const parameters = Array.from({ length: 40 }, (_, position) => ({ ...greedy, temperature: 50, topK, position }));
    for (const token of sampleRows(
      parameters.map(() => logits),
      parameters,
    ))
      expect(order.indexOf(token)).toBeLessThan(topK);
  });

  test("top-p of a large vocabulary of equal logits keeps the lowest tokens, with and without top-k", () => {
    for (const [V, topK, kept] of [
      [2001, 0, 1001],
      [2400, 1200, 600],
    ]) {
      const parameters = Array.from({ length: 60 }, (_, position) => {
        return { ...greedy, temperature: 1, topP: 0.5, topK, position };
      });
      const tokens = sampleRows(
        parameters.map(() => new Float32Array(V).fill(-2.5)),
        parameters,
      );
      expect(Math.max(...tokens)).toBeLessThan(kept);
      expect(Math.max(...tokens)).toBeGreaterThan(0.8 * kept);
    }
  });
});
