/**
 * Non-negative least squares (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23; on the normal
 * equations, as in Bro and de Jong, 1997). The coefficient of a linearly dependent column stays 0.
 *
 * @param products sums over the rows of each pair of columns, [columns][columns]
 * @param targets sums over the rows of each column times the observed value, [columns]
 */
export function nonNegative(products: readonly Float64Array[], targets: Float64Array): Float64Array {
  const scale = products.map((row, i) => (row[i] > 0 ? 1 / Math.sqrt(row[i]) : 0));
  const a = products.map((row, i) => row.map((value, j) => value * scale[i] * scale[j]));
  const b = targets.map((value, i) => value * scale[i]);
  const [x, passive] = [new Float64Array(b.length), new Set<number>()];
  const excluded = new Set(scale.flatMap((value, i) => (value === 0 ? [i] : [])));
  // Each turn reduces the error, except for rounding: the number of turns is bounded.
  for (let turn = 0; turn < 20 * b.length; turn++) {
    const entering = steepest(a, b, x, (i) => passive.has(i) || excluded.has(i));
    if (entering === undefined) break;
    passive.add(entering);
    const solved = settle(a, b, x, passive);
    if (!solved || !passive.has(entering)) {
      passive.delete(entering);
      excluded.add(entering);
    }
  }
  return x.map((value, i) => value * scale[i]);
}

/** The coefficient whose increase reduces the error most; undefined if none does. */
function steepest(a: readonly Float64Array[], b: Float64Array, x: Float64Array, skip: (i: number) => boolean) {
  let [best, most]: [number | undefined, number] = [undefined, 1e-9 * Math.max(...b.map(Math.abs))];
  for (let i = 0; i < b.length; i++) {
    if (skip(i)) continue;
    const slope = b[i] - a[i].reduce((sum, value, j) => sum + value * x[j], 0);
    if (slope > most) [best, most] = [i, slope];
  }
  return best;
}

/** Moves `x` to the optimum over the passive set, from which coefficients that would not be positive are removed. */
function settle(a: readonly Float64Array[], b: Float64Array, x: Float64Array, passive: Set<number>): boolean {
  for (;;) {
    const columns = [...passive].sort((i, j) => i - j);
    const found = solved(a, b, columns);
    if (found === undefined) return false;
    let way = 1;
    columns.forEach((column, i) => {
      if (found[i] <= 0) way = Math.min(way, x[column] / (x[column] - found[i]));
    });
    columns.forEach((column, i) => {
      x[column] += way * (found[i] - x[column]);
      if (found[i] > 0 || x[column] > 1e-15) return;
      x[column] = 0;
      passive.delete(column);
    });
    if (way === 1) return true;
  }
}

/** Solves the normal equations of some columns (Cholesky); undefined if they are linearly dependent. */
function solved(a: readonly Float64Array[], b: Float64Array, columns: readonly number[]): Float64Array | undefined {
  const n = columns.length;
  const lower = columns.map(() => new Float64Array(n));
  const y = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = a[columns[i]][columns[j]];
      for (let k = 0; k < j; k++) sum -= lower[i][k] * lower[j][k];
      if (i !== j) lower[i][j] = sum / lower[j][j];
      else if (sum < 1e-9) return undefined;
      else lower[i][i] = Math.sqrt(sum);
    }
    let sum = b[columns[i]];
    for (let k = 0; k < i; k++) sum -= lower[i][k] * y[k];
    y[i] = sum / lower[i][i];
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) y[i] -= lower[k][i] * y[k];
    y[i] /= lower[i][i];
  }
  return y;
}
