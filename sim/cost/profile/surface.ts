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

/** Most points of the first three axes between which a point is interpolated. */
const mostCorners = 2 ** (axes.length - 1);
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
  /**
   * The corners of the last point: lines of times by context, from `#from` to `#to` of the last axis, and their weights. Most
   * points differ from the one before in their context only.
   */
  readonly #point = new Float64Array(last).fill(Number.NaN);
  /** The segments of the last calls of `at`, by `line`. */
  readonly segments: readonly [Segment, Segment] = [newSegment(), newSegment()];
  #corners = 0;
  #from = new Int32Array(mostCorners);
  #to = new Int32Array(mostCorners);
  #weights = new Float64Array(mostCorners);
  #nextFrom = new Int32Array(mostCorners);
  #nextTo = new Int32Array(mostCorners);
  #nextWeights = new Float64Array(mostCorners);

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

  /**
   * The time at this point, in nanoseconds, at least 0. Successive steps differ in two contexts, mean and longest: `line` is 0 or 1,
   * so that each has the segment of its last call.
   */
  at(chunk: number, cached: number, decodes: number, context: number, line: 0 | 1 = 0): number {
    const point = this.#point;
    if (point[0] !== chunk || point[1] !== cached || point[2] !== decodes) {
      point[0] = chunk;
      point[1] = cached;
      point[2] = decodes;
      this.#findCorners();
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
    segment.low = Number.NEGATIVE_INFINITY;
    segment.high = Number.POSITIVE_INFINITY;
    segment.ns = segment.slope = 0;
    let sum = 0;
    let isMeasured = false;
    let offset = 0;
    for (let k = 0; k < this.#corners; k++) {
      const from = this.#from[k];
      const to = this.#to[k];
      const weight = this.#weights[k];
      if (to - from === 1 || context <= values[from]) {
        sum += weight * times[from];
        segment.ns += weight * times[from];
        if (to - from > 1) {
          segment.high = Math.min(segment.high, values[from]);
          if (context === values[from]) isMeasured = true;
        }
        continue;
      }
      const i = bracket(values, from, to, context, from + offset);
      offset = i - from;
      const slope = (times[i + 1] - times[i]) / (values[i + 1] - values[i]);
      const isEnd = context === values[i + 1];
      if (isEnd || context === values[i]) isMeasured = true;
      sum += weight * (isEnd ? times[i + 1] : times[i] + slope * (context - values[i]));
      segment.ns += weight * (times[i] - slope * values[i]);
      segment.slope += weight * slope;
      const isBeyond = context > values[i + 1];
      segment.low = Math.max(segment.low, values[isBeyond ? i + 1 : i]);
      if (!isBeyond) segment.high = Math.min(segment.high, values[i + 1]);
    }
    return isMeasured || segment.slope === 0 ? sum : segment.ns + segment.slope * context;
  }

  /** Follows the first three axes; each doubles the corners where the point is between two of its values. */
  #findCorners(): void {
    this.#corners = 1;
    this.#from[0] = 0;
    this.#to[0] = this.#values[0].length;
    this.#weights[0] = 1;
    for (let axis = 0; axis < last; axis++) this.#split(axis);
  }

  #split(axis: number): void {
    const values = this.#values[axis];
    const starts = this.#starts[axis + 1];
    const value = this.#point[axis];
    const nextFrom = this.#nextFrom;
    const nextTo = this.#nextTo;
    const nextWeights = this.#nextWeights;
    let count = 0;
    let offset = 0;
    for (let k = 0; k < this.#corners; k++) {
      const from = this.#from[k];
      const to = this.#to[k];
      const weight = this.#weights[k];
      const isBefore = to - from === 1 || value <= values[from];
      const low = isBefore ? from : bracket(values, from, to, value, from + offset);
      offset = low - from;
      const high = isBefore || value === values[low] ? 0 : this.#highWeight(axis, values[low], values[low + 1], value);
      if (high !== 1) {
        nextFrom[count] = starts[low];
        nextTo[count] = starts[low + 1];
        nextWeights[count++] = weight * (1 - high);
      }
      if (high !== 0) {
        nextFrom[count] = starts[low + 1];
        nextTo[count] = starts[low + 2];
        nextWeights[count++] = weight * high;
      }
    }
    this.#corners = count;
    this.#nextFrom = this.#from;
    this.#nextTo = this.#to;
    this.#nextWeights = this.#weights;
    this.#from = nextFrom;
    this.#to = nextTo;
    this.#weights = nextWeights;
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
