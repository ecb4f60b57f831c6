import type { Random } from "../core/random.ts";

/*
 * Distributions in plain arithmetic. IEEE 754 fixes + − × ÷ and the square root to the last bit, but not exp, log and
 * pow: drawn with those, the same seed could give other lengths on another version of the engine.
 */

/** Exponential distribution with mean 1, by von Neumann's method, which needs comparisons only. */
export function exponential(random: Random): number {
  for (let whole = 0; ; whole++) {
    const first = random.unit();
    let last = first;
    // The length of the run u1 > u2 > … > un is odd with probability e^−u1.
    for (let length = 1; ; length++) {
      const next = random.unit();
      if (next >= last) {
        if (length % 2 === 1) return whole + first;
        break;
      }
      last = next;
    }
  }
}

/** Approximately standard normal: the sum of twelve uniform numbers, within ±6. */
export function normal(random: Random): number {
  let sum = -6;
  for (let i = 0; i < 12; i++) sum += random.unit();
  return sum;
}

/** Log-normal distribution with this mean; `sigma` is the standard deviation of the logarithm. */
export function logNormal(random: Random, mean: number, sigma: number): number {
  return mean * exp(sigma * normal(random) - (sigma * sigma) / 2);
}

/** Geometric distribution on 1, 2, 3, … with this mean (at least 1). */
export function geometric(random: Random, mean: number): number {
  let count = 1;
  while (random.unit() * mean >= 1) count++;
  return count;
}

/** Zipf distribution on 0 .. count − 1: the probability of k is proportional to (k + 1)^−exponent. */
export function zipf(random: Random, count: number, exponent: number): () => number {
  const upTo = new Float64Array(count);
  let sum = 0;
  for (let k = 0; k < count; k++) upTo[k] = sum += exp(-exponent * log(k + 1));
  return () => {
    const drawn = random.unit() * sum;
    let low = 0;
    let high = count - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (upTo[middle] > drawn) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}

/** e^x: the Taylor series at x / 2^k, then squared k times. */
export function exp(x: number): number {
  let halvings = 0;
  for (; Math.abs(x) > 1 / 16; x /= 2) halvings++;
  let term = 1;
  let sum = 1;
  for (let n = 1; n <= 12; n++) sum += term *= x / n;
  for (; halvings > 0; halvings--) sum *= sum;
  return sum;
}

/** The natural logarithm of x ≥ 1: halved into [1, 2), then 2 · artanh((x − 1) / (x + 1)). */
export function log(x: number): number {
  let halvings = 0;
  for (; x >= 2; x /= 2) halvings++;
  return halvings * Math.LN2 + 2 * artanh((x - 1) / (x + 1));
}

/** For |x| ≤ 1/3. */
function artanh(x: number): number {
  let power = x;
  let sum = 0;
  for (let n = 1; n < 40; n += 2, power *= x * x) sum += power / n;
  return sum;
}
