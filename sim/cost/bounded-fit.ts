import { InputError } from "../../core/errors.ts";

/** Limits of a factor, both above 0. */
export type Range = readonly [low: number, high: number];

/** A fitted factor this close to a limit, as a share of its range on a logarithmic scale, counts as being there. */
const closest = 1 / 256;
const leastStride = 1 / 1024;

const starts = [0.3, 0.5, 0.7];

/**
 * Fits factors within their ranges: the best of pattern searches on a logarithmic scale (Hooke and Jeeves, 1961) from three
 * points of the ranges.
 *
 * @throws InputError that begins with `where` if a factor ends at a limit: the model then does not have the form of the data
 */
export function fitWithin<Name extends string>(
  ranges: Readonly<Record<Name, Range>>,
  errorOf: (factors: Readonly<Record<Name, number>>) => number,
  where: string,
): Record<Name, number> {
  const names = Object.keys(ranges) as Name[];
  const valueAt = (name: Name, share: number) => ranges[name][0] * (ranges[name][1] / ranges[name][0]) ** share;
  const factorsAt = (point: readonly number[]) =>
    Object.fromEntries(names.map((name, i) => [name, valueAt(name, point[i])])) as Record<Name, number>;
  const at = (start: number) =>
    search(
      names.map(() => start),
      (point) => errorOf(factorsAt(point)),
    );
  const { point } = starts.map(at).reduce((best, one) => (one.error < best.error ? one : best));
  names.forEach((name, i) => {
    if (point[i] > closest && point[i] < 1 - closest) return;
    const [low, high] = ranges[name];
    const limit = point[i] < 0.5 ? low : high;
    throw new InputError(
      `${where}: ${name} is ${valueAt(name, point[i]).toPrecision(4)}, at the limit ${limit} of its range`,
    );
  });
  return factorsAt(point);
}

/**
 * Each share of a range moves by a stride if that lowers the error; the sum of the moves is repeated while it does; the stride
 * is halved if no share can move.
 */
function search(start: readonly number[], errorAt: (point: readonly number[]) => number) {
  const bounded = (share: number) => Math.min(1, Math.max(0, share));
  let point = start;
  let error = errorAt(point);
  const move = (to: readonly number[]): boolean => {
    const found = errorAt(to);
    if (!(found < error)) return false;
    error = found;
    point = to;
    return true;
  };
  for (let stride = 1 / 4; stride >= leastStride; ) {
    const from = point;
    start.forEach((_, i) => {
      for (const step of [stride, -stride])
        if (move(point.map((share, j) => (j === i ? bounded(share + step) : share)))) break;
    });
    if (point === from) stride /= 2;
    else while (move(point.map((share, i) => bounded(share + (share - from[i])))));
  }
  return { point, error };
}
