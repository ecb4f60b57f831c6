import { expect, test } from "vitest";
import { everything, type Factors, pairwise, type Row } from "./pairwise.ts";

/** Every pair of values of two factors that is in no row, by a search of all rows for each pair. */
function missing(factors: Factors, rows: readonly Row[]): string[] {
  const found: string[] = [];
  for (const a of Object.keys(factors))
    for (const b of Object.keys(factors)) {
      if (a === b) continue;
      factors[a].forEach((_one, i) => {
        factors[b].forEach((_other, j) => {
          if (!rows.some((row) => row[a] === i && row[b] === j)) found.push(`${a} ${i}, ${b} ${j}`);
        });
      });
    }
  return found;
}

const values = (count: number) => Array.from({ length: count }, (_, i) => i);
const shapes: number[][] = [
  [2, 2],
  [1, 1],
  [3, 2, 1],
  [5, 4, 4, 3, 3, 3, 2, 2, 2, 2, 2],
  [2, 2, 2, 2, 2, 2],
  [7, 7, 7],
];

test.each(shapes.map((shape) => [shape.join(" × "), shape] as const))("all pairs of %s are in the rows", (_, shape) => {
  const factors = Object.fromEntries(shape.map((count, n) => [`factor-${n}`, values(count)]));
  const rows = pairwise(factors);
  expect(missing(factors, rows)).toEqual([]);
  for (const row of rows) expect(Object.keys(row).sort()).toEqual(Object.keys(factors).sort());
  // `missing` finds a value that is in no row.
  expect(missing({ ...factors, "factor-0": values(shape[0] + 1) }, rows)).not.toEqual([]);
  expect(pairwise(factors)).toEqual(rows);
});

test("there are far fewer rows than combinations, and few more than the minimum", () => {
  const factors = Object.fromEntries(
    [5, 4, 4, 3, 3, 3, 2, 2, 2, 2, 2].map((count, n) => [`factor-${n}`, values(count)]),
  );
  expect([...everything(factors)]).toHaveLength(5 * 4 * 4 * 3 ** 3 * 2 ** 5);
  expect(pairwise(factors).length).toBeGreaterThanOrEqual(20);
  expect(pairwise(factors).length).toBeLessThan(40);
});

test("`everything` yields every combination once", () => {
  const rows = [...everything({ a: values(3), b: values(1), c: values(2) })].map(({ a, b, c }) => `${a}${b}${c}`);
  expect(rows).toEqual(["000", "001", "100", "101", "200", "201"]);
});
