import { cheapestFlow } from "./cheapest-flow.ts";
import { dualValue, type Packing, type PackingBound, packed, prefixSums, uniformBound } from "./packing.ts";

/** Problems with at most this product of size and capacity are solved exactly. */
const exactSize = 200_000;
/** Steps of the search for prices, and the interval visits that they may have in all. */
const maxSteps = 400;
const maxVisits = 400_000_000;

/**
 * Bounds the largest value of a packing. Exact for equal weights and for small problems; otherwise certified: the largest value
 * is between `reached` and `bound`.
 */
export function packingBound(packing: Packing): PackingBound {
  const { weight, free, start } = packing;
  if (start.length === 0) return { bound: 0, reached: 0, prices: new Float64Array(free.length) };
  if (weight.every((value) => value === weight[0])) return uniformBound(packing);
  const [slots, copies] = [largest(free), packing.copies.reduce((sum, count) => sum + count, 0)];
  const isSmall = (free.length + start.length) * (1 + Math.min(slots, copies)) <= exactSize;
  const found = isSmall ? boundOf(packing, cheapestFlow(packing)) : searched(packing);
  // The largest value of whole weights is a whole number.
  const isWhole = weight.every(Number.isInteger);
  return isWhole ? { ...found, bound: Math.max(found.reached, Math.floor(found.bound + 1e-6)) } : found;
}

/** The bound of some prices, and the packing that they lead to. */
function boundOf(packing: Packing, prices: Float64Array): PackingBound {
  const reached = Math.max(packed(packing, byGain(packing, prices)).value, 0);
  return { bound: Math.max(reached, dualValue(packing, prices)), reached, prices };
}

/**
 * Priority of each interval: its weight less the price of its slots, as of any request that it crosses; of equals, those that end
 * first are kept.
 */
function byGain({ end, weight }: Packing, prices: Float64Array): (i: number) => number {
  const before = prefixSums(prices);
  const gain = weight.map((value, i) => value - before[end[i]]);
  const order = Uint32Array.from(gain.keys()).sort((a, b) => gain[a] - gain[b] || end[b] - end[a]);
  const rank = new Uint32Array(order.length);
  order.forEach((i, at) => void (rank[i] = at));
  return (i) => rank[i];
}

/**
 * Projected subgradient steps (Polyak 1969) from the prices of the problem with equal weights: prices rise where the copies that
 * would pay them need more slots than there are, and fall elsewhere.
 */
export function searched(packing: Packing): PackingBound {
  const { free, start, end, copies, weight } = packing;
  const heaviest = largest(weight);
  const equal = uniformBound({ ...packing, weight: new Float64Array(weight.length).fill(heaviest) });
  let best = boundOf(packing, equal.prices);
  const prices = best.prices.slice();
  const slope = new Float64Array(free.length);
  const steps = Math.min(maxSteps, Math.floor(maxVisits / (free.length + start.length)));
  let pace = 1;
  let sinceBest = 0;
  for (let step = 0; step < steps && best.bound - best.reached > 1e-9 * best.bound; step++) {
    const before = prefixSums(prices);
    slope.fill(0);
    let value = 0;
    for (let i = 0; i < start.length; i++) {
      const gain = weight[i] - (before[end[i]] - before[start[i] + 1]);
      if (gain <= 0 || end[i] === start[i] + 1) continue;
      slope[start[i] + 1] += copies[i];
      if (end[i] < slope.length) slope[end[i]] -= copies[i];
    }
    let crossing = 0;
    let square = 0;
    for (let t = 0; t < free.length; t++) {
      crossing += slope[t];
      slope[t] = crossing - free[t];
      if (slope[t] < 0 && prices[t] === 0) slope[t] = 0;
      square += slope[t] * slope[t];
    }
    value = dualValue(packing, prices);
    if (value < best.bound) {
      const isBetter = best.bound - value > 1e-4 * (best.bound - best.reached);
      best = { ...best, bound: value, prices: prices.slice() };
      sinceBest = isBetter ? 0 : sinceBest + 1;
    } else sinceBest++;
    if (sinceBest > 10) {
      pace /= 2;
      sinceBest = 0;
    }
    if (square === 0) break;
    const length = (pace * (value - best.reached)) / square;
    for (let t = 0; t < prices.length; t++) prices[t] = Math.max(0, prices[t] + length * slope[t]);
  }
  const { reached } = boundOf(packing, best.prices);
  return { ...best, reached: Math.max(reached, best.reached) };
}

const largest = (values: Float64Array) => values.reduce((most, value) => Math.max(most, value), 0);
