import FlatQueue from "flatqueue";

/**
 * Intervals of requests, to be packed: the copies of interval i begin at request `start[i]`, end at request `end[i]`, and occupy
 * one slot each at every request strictly between. Intervals are in the order of `start`.
 */
export interface Packing {
  /** By request: slots that the copies kept across it may occupy. */
  readonly free: Float64Array;
  readonly start: Uint32Array;
  readonly end: Uint32Array;
  readonly copies: Uint32Array;
  /** Value of each kept copy, above 0. */
  readonly weight: Float64Array;
}

/** The largest value of a packing lies between two numbers: it is at most `bound`, and a packing of value `reached` exists. */
export interface PackingBound {
  readonly bound: number;
  readonly reached: number;
  /** By request: price of a slot. The prices prove the bound, see `dualValue`. */
  readonly prices: Float64Array;
}

/** A packing, and for each request the earliest end among the copies that were dropped there; 0: none was. */
interface Packed {
  readonly value: number;
  readonly droppedEnd: Uint32Array;
}

/**
 * An upper bound of every packing, for any non-negative prices: a packing pays at most the price of all slots, and a copy that
 * pays for the slots that it occupies gains at most its weight less their price, or nothing if it is not kept.
 */
export function dualValue({ free, start, end, copies, weight }: Packing, prices: Float64Array): number {
  const before = prefixSums(prices);
  let value = 0;
  for (let t = 0; t < free.length; t++) value += free[t] * prices[t];
  for (let i = 0; i < start.length; i++) {
    const gain = weight[i] - (before[end[i]] - before[start[i] + 1]);
    if (gain > 0) value += copies[i] * gain;
  }
  return value;
}

/** Sums of the first t prices, t = 0 … requests. */
export function prefixSums(prices: Float64Array): Float64Array {
  const sums = new Float64Array(prices.length + 1);
  for (let t = 0; t < prices.length; t++) sums[t + 1] = sums[t] + prices[t];
  return sums;
}

/**
 * Packs from the first request to the last. Where too many copies cross a request, those of the lowest priority are dropped; a
 * copy that crosses no request is always kept.
 */
export function packed({ free, start, end, copies, weight }: Packing, priority: (i: number) => number): Packed {
  const queue = new FlatQueue<number>();
  const kept = copies.slice();
  const endingAt = new Float64Array(free.length + 1);
  const droppedEnd = new Uint32Array(free.length);
  let crossing = 0;
  let i = 0;
  for (let t = 0; t < free.length; t++) {
    crossing -= endingAt[t];
    while (crossing > free[t]) {
      const lowest = queue.peek()!;
      const dropped = end[lowest] > t ? Math.min(crossing - free[t], kept[lowest]) : 0;
      kept[lowest] -= dropped;
      endingAt[end[lowest]] -= dropped;
      crossing -= dropped;
      if (dropped > 0 && (droppedEnd[t] === 0 || end[lowest] < droppedEnd[t])) droppedEnd[t] = end[lowest];
      if (kept[lowest] === 0 || end[lowest] <= t) queue.pop();
    }
    for (; i < start.length && start[i] === t; i++) {
      if (end[i] === t + 1) continue;
      endingAt[end[i]] += copies[i];
      crossing += copies[i];
      queue.push(i, priority(i));
    }
  }
  let value = 0;
  for (let i = 0; i < kept.length; i++) value += kept[i] * weight[i];
  return { value, droppedEnd };
}

/**
 * The largest packing of copies of equal weight. Dropping the copies that end last is optimal, and prices of 0 and 1 prove it
 * (docs/bounds.md): from the last request back, a request gets the price 1 if a copy was dropped there that ends by the next
 * request with a price.
 */
export function uniformBound(packing: Packing): PackingBound {
  const { end, weight } = packing;
  const { value, droppedEnd } = packed(packing, (i) => -end[i]);
  const prices = new Float64Array(droppedEnd.length);
  let next = Number.POSITIVE_INFINITY;
  for (let t = prices.length - 1; t >= 0; t--) {
    if (droppedEnd[t] === 0 || droppedEnd[t] > next) continue;
    prices[t] = weight[0];
    next = t;
  }
  return { bound: dualValue(packing, prices), reached: value, prices };
}
