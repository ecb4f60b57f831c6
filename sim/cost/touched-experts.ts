/**
 * Expected number of distinct experts by number of tokens, with uniform routing; the last element, which is less than a
 * thousandth of an expert below all of them, applies to all larger numbers.
 */
export function touchedExperts(count: number, active: number): Float64Array {
  const touched: number[] = [];
  for (let left = count; left > 1e-3; left *= 1 - active / count) touched.push(count - left);
  touched.push(count);
  return Float64Array.from(touched);
}
