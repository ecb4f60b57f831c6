/** Places near the wished ones, in their order, at least `apart` from each other and within `[low, high]` as far as they fit. */
export function spread(wished: readonly number[], apart: number, low: number, high: number): number[] {
  const order = wished.map((_, i) => i).sort((a, b) => wished[a] - wished[b]);
  const places = [...wished];
  let free = low;
  for (const i of order) {
    places[i] = Math.max(places[i], free);
    free = places[i] + apart;
  }
  let end = high;
  for (const i of order.reverse()) {
    places[i] = Math.min(places[i], end);
    end = places[i] - apart;
  }
  return places;
}
