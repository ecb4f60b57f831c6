/**
 * The index i of the segment [values[i], values[i + 1]] that contains `value`, or is nearest to it. `values[from .. to)` is in
 * ascending order and has at least two elements; the last index returned is `to - 2`.
 */
export function bracket(
  values: ArrayLike<number>,
  from: number,
  to: number,
  value: number,
  /** An index that is tried first. */
  hint = from,
): number {
  if (hint < to - 1 && values[hint] <= value && value < values[hint + 1]) return hint;
  let low = from;
  let high = to - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle;
    else high = middle;
  }
  return low;
}
