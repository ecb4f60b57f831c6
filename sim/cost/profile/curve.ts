import { bracket } from "./bracket.ts";

/**
 * Rows of the smallest tile of a matrix product. Between two measured counts that are at most one tile apart every count fills
 * the same tiles, so that it takes as long as the larger one.
 */
const tileRows = 16;

/** A measured time by a count (tokens, sequences): exact at the measured counts, monotone between two of them. */
export class Curve {
  readonly #counts: Float64Array;
  readonly #ns: Float64Array;

  /** `counts` in ascending order, at least one; `ns[i]`: the time at `counts[i]`, in nanoseconds. */
  constructor(counts: ArrayLike<number>, ns: ArrayLike<number>) {
    this.#counts = Float64Array.from(counts);
    this.#ns = Float64Array.from(ns);
  }

  /** Below the smallest count: the time at that count. Above the largest one: the line through the last two. */
  at(count: number): number {
    const counts = this.#counts;
    const ns = this.#ns;
    if (count <= counts[0]) return ns[0];
    if (counts.length === 1) return (ns[0] * count) / counts[0];
    const i = bracket(counts, 0, counts.length, count);
    const [low, high] = [counts[i], counts[i + 1]];
    if (count === low) return ns[i];
    if (count > high) return ns[i + 1] + (Math.max(0, ns[i + 1] - ns[i]) * (count - high)) / (high - low);
    if (count === high || high - low <= tileRows) return ns[i + 1];
    return ns[i] + ((ns[i + 1] - ns[i]) * (count - low)) / (high - low);
  }
}
