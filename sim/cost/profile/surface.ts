import { bracket } from "./bracket.ts";

/** Measured times of attention kernels, as columns. */
export interface AttentionRows {
  /** Tokens of the prompt's chunk, tokens cached before it, number of decodes, context tokens of each of them. */
  readonly chunk: ArrayLike<number>;
  readonly cached: ArrayLike<number>;
  readonly decodes: ArrayLike<number>;
  readonly context: ArrayLike<number>;
  readonly ns: ArrayLike<number>;
}

const axes = ["chunk", "cached", "decodes", "context"] as const;

/**
 * A measured time by chunk, cached tokens, decodes and context: exact at each measured point, linear in each of the four between
 * two values that were measured. Along the chunk, the weight is the share of query-key pairs, with which attention's time grows.
 *
 * The grid may be ragged: the values of an axis may differ with the values of the axes before it. So a point is the interpolation
 * between two chunks, each of them between two of its own numbers of cached tokens, and so on. Beyond the last value of an axis
 * the line through the last two is continued.
 */
export class Surface {
  /** Per axis the values in order, and where the children of each one begin on the next axis (the last one: its time). */
  readonly #values: Float64Array[] = [];
  readonly #starts: Int32Array[] = [];
  readonly #ns: Float64Array;
  readonly #point = new Float64Array(axes.length);

  constructor(rows: AttentionRows) {
    const { ns } = rows;
    const columns = axes.map((axis) => rows[axis]);
    const order = Array.from(ns, (_, i) => i).sort((a, b) => {
      for (const column of columns) if (column[a] !== column[b]) return column[a] - column[b];
      return 0;
    });
    // Every axis begins a new value where one of the axes before it does.
    let starts = order.map((_, i) => i === 0);
    for (const column of columns) {
      const begins = order.map((row, i) => starts[i] || column[row] !== column[order[i - 1]]);
      this.#values.push(Float64Array.from(order.filter((_, i) => begins[i]).map((row) => column[row])));
      this.#starts.push(childrenOf(starts, begins));
      starts = begins;
    }
    this.#ns = Float64Array.from(order.filter((_, i) => starts[i]).map((row) => ns[row]));
  }

  /** The time at this point, in nanoseconds, at least 0. */
  at(chunk: number, cached: number, decodes: number, context: number): number {
    const point = this.#point;
    point[0] = chunk;
    point[1] = cached;
    point[2] = decodes;
    point[3] = context;
    return Math.max(0, this.#along(0, 0));
  }

  /** Interpolation along `axis` among the children of value `parent` of the axis before. */
  #along(axis: number, parent: number): number {
    const values = this.#values[axis];
    const from = this.#starts[axis][parent];
    const to = this.#starts[axis][parent + 1];
    const value = this.#point[axis];
    if (to - from === 1 || value <= values[from]) return this.#below(axis, from);
    const i = bracket(values, from, to, value);
    if (values[i] === value) return this.#below(axis, i);
    if (values[i + 1] === value) return this.#below(axis, i + 1);
    const low = this.#below(axis, i);
    const high = this.#below(axis, i + 1);
    if (value > values[i + 1] && high < low) return high;
    return low + this.#weight(axis, values[i], values[i + 1], value) * (high - low);
  }

  #weight(axis: number, low: number, high: number, value: number): number {
    if (axis > 0) return (value - low) / (high - low);
    const cached = this.#point[1];
    return (pairs(value, cached) - pairs(low, cached)) / (pairs(high, cached) - pairs(low, cached));
  }

  /** The value of the next axis at value `i` of `axis`; of the last axis, its time. */
  #below(axis: number, i: number): number {
    return axis === axes.length - 1 ? this.#ns[i] : this.#along(axis + 1, i);
  }
}

/** Query-key pairs of a chunk that follows `cached` tokens. */
const pairs = (chunk: number, cached: number) => chunk * cached + (chunk * (chunk + 1)) / 2;

/** For each value of the axis before (where `parents` is set) the number of values of this axis that precede its own. */
function childrenOf(parents: readonly boolean[], begins: readonly boolean[]): Int32Array {
  const starts: number[] = [];
  let count = 0;
  parents.forEach((isParent, i) => {
    if (isParent) starts.push(count);
    if (begins[i]) count++;
  });
  return Int32Array.from([...starts, count]);
}
