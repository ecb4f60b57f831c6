/** Sizes closer than this are one size: systems with other block sizes cannot have equal numbers of tokens. */
export const sameSize = 1.05;

/** Whether all runs have the same cache size. */
export function haveOneSize(rows: readonly { readonly capacityTokens: number | null }[]): boolean {
  const sizes = rows.map(({ capacityTokens }) => capacityTokens ?? Number.POSITIVE_INFINITY);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  return least === most || most <= least * sameSize;
}

/** The points before which a line is broken, because between it and the one before lies one of `sizes` that the line lacks. */
export function breaksBetween(points: readonly { readonly x: number }[], sizes: readonly number[]): Set<number> {
  const isBetween = (i: number) => (size: number) => size > points[i - 1].x * sameSize && size * sameSize < points[i].x;
  return new Set(points.flatMap((_, i) => (i > 0 && sizes.some(isBetween(i)) ? [i] : [])));
}
