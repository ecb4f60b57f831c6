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

/** Between these contexts, both excluded, the time is `ns + slope · context`. */
export interface Segment {
  low: number;
  high: number;
  ns: number;
  slope: number;
}

const newSegment = (): Segment => ({ low: 0, high: 0, ns: 0, slope: 0 });

/** Parts of the grid between which a point is interpolated: rows `from` to `to` of the next axis, and their weights. */
interface Corners {
  readonly from: Int32Array;
  readonly to: Int32Array;
  readonly weights: Float64Array;
  count: number;
}

const newCorners = (most: number): Corners => ({
  from: new Int32Array(most),
  to: new Int32Array(most),
  weights: new Float64Array(most),
  count: 0,
});

const last = axes.length - 1;

/**
 * A measured time by chunk, cached tokens, decodes and context: exact at each measured point, linear in each of the four between
 * two values that were measured. Along the chunk, the weight is the share of query-key pairs, with which attention's time grows.
 *
 * The grid may be ragged: the values of an axis may differ with the values of the axes before it. So a point is the interpolation
 * between two chunks, each of them between two of its own numbers of cached tokens, and so on. Beyond the last value of an axis
 * the line through the last two is continued.
 */
export class Surface {
  /** Per axis the values in order, and where the children of each one begin on the next axis. */
  readonly #values: Float64Array[] = [];
  readonly #starts: Int32Array[] = [];
  readonly #ns: Float64Array;
  /** The first three axes of the last point. Most points differ from the one before in their context only. */
  readonly #point = new Float64Array(last).fill(Number.NaN);
  /** By number of axes followed, the corners of the last point: element 0 is the whole grid, the last one lines of times. */
  readonly #corners: readonly Corners[] = Array.from({ length: axes.length }, (_, axis) => newCorners(2 ** axis));
  /** The segments of the last calls of `at`, by `line`. */
  readonly segments: readonly [Segment, Segment] = [newSegment(), newSegment()];

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
    const [grid] = this.#corners;
    grid.count = grid.weights[0] = 1;
    grid.to[0] = this.#values[0].length;
  }

  /**
   * The time at this point, in nanoseconds, at least 0. Successive steps differ in two contexts, mean and longest: `line` is 0 or 1,
   * so that each has the segment of its last call.
   */
  at(chunk: number, cached: number, decodes: number, context: number, line: 0 | 1 = 0): number {
    const point = this.#point;
    if (point[0] !== chunk || point[1] !== cached || point[2] !== decodes) {
      // The corners of the axes before the first one that differs are the same; the weights of two chunks depend on `cached`.
      const isChunkSame = point[0] === chunk && (point[1] === cached || this.#corners[1].count === 1);
      const first = isChunkSame ? (point[1] === cached ? 2 : 1) : 0;
      point[0] = chunk;
      point[1] = cached;
      point[2] = decodes;
      for (let axis = first; axis < last; axis++) this.#split(axis);
      for (const segment of this.segments) segment.high = segment.low;
    }
    const segment = this.segments[line];
    if (context > segment.low && context < segment.high) return Math.max(0, segment.ns + segment.slope * context);
    return Math.max(0, this.#onSegments(context, segment));
  }

  /**
   * The weighted sum of the corners' times; `segment` becomes the one that contains the context. Its line is the time between
   * measured contexts, so that the time does not depend on the calls before; at a measured one the sum is exact.
   */
  #onSegments(context: number, segment: Segment): number {
    const values = this.#values[last];
    const times = this.#ns;
    const { from: froms, to: tos, weights, count } = this.#corners[last];
    let low = Number.NEGATIVE_INFINITY;
    let high = Number.POSITIVE_INFINITY;
    let start = 0;
    let slope = 0;
    let sum = 0;
    let isMeasured = false;
    let offset = 0;
    for (let k = 0; k < count; k++) {
      const from = froms[k];
      const to = tos[k];
      const weight = weights[k];
      if (to - from === 1 || context <= values[from]) {
        sum += weight * times[from];
        start += weight * times[from];
        if (to - from > 1) {
          high = Math.min(high, values[from]);
          if (context === values[from]) isMeasured = true;
        }
        continue;
      }
      const i = bracket(values, from, to, context, from + offset);
      offset = i - from;
      const own = (times[i + 1] - times[i]) / (values[i + 1] - values[i]);
      const isEnd = context === values[i + 1];
      if (isEnd || context === values[i]) isMeasured = true;
      sum += weight * (isEnd ? times[i + 1] : times[i] + own * (context - values[i]));
      start += weight * (times[i] - own * values[i]);
      slope += weight * own;
      const isBeyond = context > values[i + 1];
      low = Math.max(low, values[isBeyond ? i + 1 : i]);
      if (!isBeyond) high = Math.min(high, values[i + 1]);
    }
    segment.low = low;
    segment.high = high;
    segment.ns = start;
    segment.slope = slope;
    return isMeasured || slope === 0 ? sum : start + slope * context;
  }

  /** Follows one axis: a corner becomes two where the point is between two of its values. */
  #split(axis: number): void {
    const values = this.#values[axis];
    const starts = this.#starts[axis + 1];
    const value = this.#point[axis];
    const corners = this.#corners[axis];
    const next = this.#corners[axis + 1];
    let count = 0;
    let offset = 0;
    for (let k = 0; k < corners.count; k++) {
      const from = corners.from[k];
      const to = corners.to[k];
      const weight = corners.weights[k];
      const isBefore = to - from === 1 || value <= values[from];
      const low = isBefore ? from : bracket(values, from, to, value, from + offset);
      offset = low - from;
      const high = isBefore || value === values[low] ? 0 : this.#highWeight(axis, values[low], values[low + 1], value);
      if (high !== 1) {
        next.from[count] = starts[low];
        next.to[count] = starts[low + 1];
        next.weights[count++] = weight * (1 - high);
      }
      if (high !== 0) {
        next.from[count] = starts[low + 1];
        next.to[count] = starts[low + 2];
        next.weights[count++] = weight * high;
      }
    }
    next.count = count;
  }

  /** The weight of the higher of two values. */
  #highWeight(axis: number, low: number, high: number, value: number): number {
    if (value === high) return 1;
    if (axis > 0) return (value - low) / (high - low);
    const cached = this.#point[1];
    return (pairs(value, cached) - pairs(low, cached)) / (pairs(high, cached) - pairs(low, cached));
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
