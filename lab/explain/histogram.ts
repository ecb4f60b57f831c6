import { grown } from "../../core/grown.ts";

/** A bin of a histogram: values in `[from, below)`. */
export interface Bin {
  readonly from: number;
  readonly below: number;
  readonly count: number;
}

/** Bins of three significant digits: one for each integer below 1,000, then 900 for each power of ten. */
const exact = 1000;
const perDecade = 900;

/**
 * Counts of integers from 0, such as ages. Values are kept with three significant digits, rounded down, so that memory does not
 * grow with their number.
 */
export class Histogram {
  count = 0;
  sum = 0;
  max = 0;
  #bins = new Float64Array(exact);

  /** Adds a value `weight` times. */
  add(value: number, weight = 1): void {
    const at = binOf(value);
    if (at >= this.#bins.length) this.#bins = grown(this.#bins, at + perDecade);
    this.#bins[at] += weight;
    this.count += weight;
    this.sum += value * weight;
    if (value > this.max) this.max = value;
  }

  /** The smallest value that at least `share` of the values do not exceed, with three significant digits; 0 without values. */
  quantile(share: number): number {
    const rank = Math.max(1, Math.ceil(share * this.count));
    let seen = 0;
    for (let at = 0; at < this.#bins.length; at++) {
      seen += this.#bins[at];
      if (seen >= rank) return lowestOf(at);
    }
    return 0;
  }

  /** Bins that begin at 0, 1, 2, 5, 10, 20, 50 …; those without values are omitted. */
  bins(): Bin[] {
    const bins: Bin[] = [];
    let [from, below, count] = [0, 1, 0];
    const end = () => {
      if (count > 0) bins.push({ from, below, count });
      count = 0;
    };
    this.#bins.forEach((each, at) => {
      if (each === 0) return;
      const value = lowestOf(at);
      if (value >= below) end();
      while (value >= below) [from, below] = [below, nextEdge(below)];
      count += each;
    });
    end();
    return bins;
  }
}

function binOf(value: number): number {
  if (value < exact) return value;
  let unit = 10;
  let decade = 0;
  for (; value >= unit * exact; unit *= 10) decade++;
  return exact + decade * perDecade + Math.floor(value / unit) - exact / 10;
}

/** The smallest value in a bin. */
function lowestOf(at: number): number {
  if (at < exact) return at;
  const decade = Math.floor((at - exact) / perDecade);
  return (at - exact - decade * perDecade + exact / 10) * 10 ** (decade + 1);
}

/** 1, 2, 5, 10, 20, 50 … */
function nextEdge(edge: number): number {
  const digit = Number(String(edge)[0]);
  return digit === 2 ? edge * 2.5 : edge * 2;
}
