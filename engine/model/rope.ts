/**
 * Scaling of the frequencies of rotary position embedding to contexts longer than those of the training: `rope_scaling` of
 * config.json. `dynamic` is not supported: it depends on the current length of the sequence, so that cached keys would change.
 */
export type RopeScaling =
  | { readonly kind: "linear"; readonly factor: number }
  | {
      readonly kind: "llama3";
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalPositions: number;
    }
  | {
      readonly kind: "yarn";
      readonly factor: number;
      readonly originalPositions: number;
      /** Rotations within the original context: dimensions with more are kept, with fewer than `betaSlow` interpolated. */
      readonly betaFast: number;
      readonly betaSlow: number;
      /** The range of dimensions between the two is rounded to integers. */
      readonly truncate: boolean;
    };

/** Rotary position embedding without scaling: 1 / theta^(2i / headDim) for each pair of dimensions i. */
export function plainFrequencies(headDim: number, theta: number): Float64Array {
  return Float64Array.from({ length: headDim / 2 }, (_, i) => theta ** ((-2 * i) / headDim));
}

/** Inverse frequency of each pair of dimensions, [headDim / 2]. */
export function scaledFrequencies(headDim: number, theta: number, scaling: RopeScaling | undefined): Float64Array {
  const plain = plainFrequencies(headDim, theta);
  switch (scaling?.kind) {
    case undefined:
      return plain;
    case "linear":
      return plain.map((frequency) => frequency / scaling.factor);
    case "llama3":
      return plain.map((frequency) => llama3Frequency(frequency, scaling));
    case "yarn": {
      const [low, high] = yarnRange(headDim, theta, scaling);
      return plain.map((frequency, i) => {
        const interpolated = Math.min(1, Math.max(0, (i - low) / (high - low)));
        return (frequency / scaling.factor) * interpolated + frequency * (1 - interpolated);
      });
    }
  }
}

/** Llama 3.1: long wavelengths are scaled, short ones are kept, and those in between are interpolated. */
function llama3Frequency(frequency: number, scaling: RopeScaling & { kind: "llama3" }): number {
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalPositions } = scaling;
  const turns = (originalPositions * frequency) / (2 * Math.PI);
  if (turns < lowFrequencyFactor) return frequency / factor;
  if (turns > highFrequencyFactor) return frequency;
  const kept = (turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
  return ((1 - kept) * frequency) / factor + kept * frequency;
}

/** The pairs of dimensions between which YaRN changes from kept to interpolated (Peng et al. 2023, section 3.2). */
function yarnRange(headDim: number, theta: number, scaling: RopeScaling & { kind: "yarn" }): [number, number] {
  const { originalPositions, betaFast, betaSlow, truncate } = scaling;
  const pairThatTurns = (turns: number) =>
    (headDim * Math.log(originalPositions / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const [first, last] = [pairThatTurns(betaFast), pairThatTurns(betaSlow)];
  const low = Math.max(0, truncate ? Math.floor(first) : first);
  const high = Math.min(headDim - 1, truncate ? Math.ceil(last) : last);
  return [low, high === low ? high + 0.001 : high];
}

/** YaRN's attention temperature, the factor of cosines and sines unless the file states one. */
export function yarnTemperature(factor: number, scale = 1): number {
  return factor <= 1 ? 1 : 0.1 * scale * Math.log(factor) + 1;
}
