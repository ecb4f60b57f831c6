/** Positions near `preferred` and in the same order, at least `distance` apart and, as far as they fit, within `[low, high]`. */
export function placeLabels(preferred: readonly number[], distance: number, low: number, high: number): number[] {
  const order = preferred.map((_, i) => i).sort((a, b) => preferred[a] - preferred[b]);
  const positions = [...preferred];
  let free = low;
  for (const i of order) {
    positions[i] = Math.max(positions[i], free);
    free = positions[i] + distance;
  }
  let end = high;
  for (const i of order.reverse()) {
    positions[i] = Math.min(positions[i], end);
    end = positions[i] - distance;
  }
  return positions;
}
