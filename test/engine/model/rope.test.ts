import { expect, test } from "vitest";
import { plainFrequencies, scaledFrequencies, yarnTemperature } from "../../../engine/model/rope.ts";

function close(found: Float64Array, expected: readonly number[]): void {
  expect(found.length).toBe(expected.length);
  for (const [i, value] of found.entries()) expect(Math.abs(value / expected[i] - 1)).toBeLessThan(1e-8);
}

test("frequencies fall from 1 by equal ratios", () => {
  close(plainFrequencies(8, 10_000), [1, 0.1, 0.01, 0.001]);
});

test("linear scaling divides all frequencies", () => {
  close(scaledFrequencies(8, 10_000, { kind: "linear", factor: 4 }), [0.25, 0.025, 0.0025, 0.000_25]);
});

// Expected values: the formulas of the transformers library, in NumPy.
test("llama3 scaling keeps short wavelengths, scales long ones and interpolates in between", () => {
  const scaling = {
    kind: "llama3",
    factor: 8,
    lowFrequencyFactor: 1,
    highFrequencyFactor: 4,
    originalPositions: 8192,
  } as const;
  close(
    scaledFrequencies(16, 500_000, scaling),
    [1, 0.193922745, 0.0376060309, 0.00729266474, 0.000524846161, 3.4281022e-5, 6.64786987e-6, 1.28917317e-6],
  );
});

test("YaRN interpolates between integer dimensions, or between fractional ones", () => {
  const yarn = {
    kind: "yarn",
    factor: 4,
    originalPositions: 32_768,
    betaFast: 32,
    betaSlow: 1,
    truncate: true,
  } as const;
  close(
    scaledFrequencies(16, 1e6, yarn),
    [1, 0.177827941, 0.0316227766, 0.00421755994, 0.0005, 4.44569853e-5, 7.90569415e-6, 1.40585331e-6],
  );
  const broken = { ...yarn, factor: 16, originalPositions: 4096, betaFast: 64, betaSlow: 2, truncate: false };
  close(
    scaledFrequencies(16, 10_000, broken),
    [1, 0.316227766, 0.1, 0.0219320463, 0.0038212144, 0.000223543562, 6.25e-5, 1.97642354e-5],
  );
});

test("YaRN stays within the existing dimensions, also for short wavelengths", () => {
  const yarn = { kind: "yarn", factor: 4, originalPositions: 700, betaFast: 32, betaSlow: 1, truncate: true } as const;
  close(scaledFrequencies(8, 10, yarn), [1.0, 0.562341325, 0.316227766, 0.15115375]);
});

test("YaRN's temperature grows with the logarithm of the factor", () => {
  expect(yarnTemperature(4)).toBeCloseTo(1.138629436111989, 12);
  expect(yarnTemperature(40, 0.75) / yarnTemperature(40, 1)).toBeCloseTo(0.932629996003703, 12);
  expect(yarnTemperature(0.5)).toBe(1);
});
