/** Named factors with their values; a row has one value of each. */
export type Factors = Readonly<Record<string, readonly unknown[]>>;
/** By factor, the index of the chosen value. */
export type Row = Readonly<Record<string, number>>;

/**
 * Rows that contain every pair of values of any two factors; deterministic. Each row begins with the first missing pair, and
 * every other factor, in turn, has the value that covers the most missing pairs.
 */
export function pairwise(factors: Factors): Row[] {
  const names = Object.keys(factors);
  const missing = new Set(pairs(factors));
  const rows: Row[] = [];
  for (const first of missing) {
    const row: Record<string, number> = {};
    for (const part of first.split(" ")) {
      const at = part.lastIndexOf("=");
      row[part.slice(0, at)] = Number(part.slice(at + 1));
    }
    names.forEach((name, n) => {
      if (name in row) return;
      const gains = factors[name].map((_, value) => covered({ ...row, [name]: value }, names, name, missing));
      const most = Math.max(...gains);
      const best = gains.flatMap((gain, value) => (gain === most ? [value] : []));
      row[name] = best[(rows.length + n) % best.length];
    });
    for (const pair of pairsIn(row, names)) missing.delete(pair);
    rows.push(row);
  }
  return rows;
}

/** Every combination of values; the last factor varies fastest. */
export function* everything(factors: Factors): Generator<Row> {
  const names = Object.keys(factors);
  const row: Record<string, number> = Object.fromEntries(names.map((name) => [name, 0]));
  for (;;) {
    yield { ...row };
    let n = names.length - 1;
    while (n >= 0 && row[names[n]] === factors[names[n]].length - 1) row[names[n--]] = 0;
    if (n < 0) return;
    row[names[n]]++;
  }
}

const pairOf = (a: string, i: number, b: string, j: number) => `${a}=${i} ${b}=${j}`;

function* pairs(factors: Factors): Generator<string> {
  const names = Object.keys(factors);
  for (let a = 0; a < names.length; a++)
    for (let b = a + 1; b < names.length; b++)
      for (let i = 0; i < factors[names[a]].length; i++)
        for (let j = 0; j < factors[names[b]].length; j++) yield pairOf(names[a], i, names[b], j);
}

function* pairsIn(row: Row, names: readonly string[]): Generator<string> {
  for (let a = 0; a < names.length; a++)
    for (let b = a + 1; b < names.length; b++)
      if (names[a] in row && names[b] in row) yield pairOf(names[a], row[names[a]], names[b], row[names[b]]);
}

/** Number of missing pairs that the row has with its newest factor. */
function covered(row: Row, names: readonly string[], newest: string, missing: ReadonlySet<string>): number {
  const at = names.indexOf(newest);
  let count = 0;
  names.forEach((name, n) => {
    if (n === at || !(name in row)) return;
    const pair = n < at ? pairOf(name, row[name], newest, row[newest]) : pairOf(newest, row[newest], name, row[name]);
    if (missing.has(pair)) count++;
  });
  return count;
}
