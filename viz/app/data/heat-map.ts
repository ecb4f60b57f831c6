import type { RunRow } from "../../api.ts";
import type { Quantity } from "./axes.ts";
import { meanOf } from "./explore-lines.ts";
import { grouped } from "./grouped.ts";
import { sameSize } from "./line-breaks.ts";

/** A grid of means of a result: a row for each series, a column for each x. */
export interface HeatMap {
  readonly rows: readonly string[];
  readonly columns: readonly number[];
  /** By row and column; undefined: no such run has the result. */
  readonly cells: readonly (readonly (HeatCell | undefined)[])[];
}

interface HeatCell {
  readonly value: number;
  /** For a tooltip, lines separated by \n. */
  readonly text: string;
}

export function heatMapOf(
  rows: readonly RunRow[],
  x: Quantity,
  y: Quantity,
  labelOf: (row: RunRow) => string,
): HeatMap {
  const drawn = rows.filter((row) => x.of(row) !== undefined && y.of(row) !== undefined);
  const columns = [...new Set(drawn.map((row) => x.of(row)!))].sort((a, b) => a - b).reduce(merged, []);
  const columnOf = (row: RunRow) => columns.findLastIndex((column) => column <= x.of(row)!);
  const groups = grouped(drawn, labelOf);
  const cells = [...groups.values()].map((group) => {
    const byColumn = grouped(group, columnOf);
    return columns.map((_, column): HeatCell | undefined => {
      const same = byColumn.get(column);
      if (!same) return undefined;
      const { y: value, text } = meanOf(same, y);
      return { value, text };
    });
  });
  return { rows: [...groups.keys()], columns, cells };
}

/** Sizes that are one are one column. */
const merged = (columns: number[], x: number): number[] =>
  columns.length > 0 && columns.at(-1)! > 0 && x < columns.at(-1)! * sameSize ? columns : [...columns, x];

/** Numbers of the rows with the best value of each column; empty where neither more nor less is better. */
export function bestRows({ columns, cells }: HeatMap, { isLessBetter }: Quantity): number[][] {
  return columns.map((_, column) => {
    const values = cells.map((row) => row[column]?.value);
    const known = values.filter((value) => value !== undefined);
    if (isLessBetter === undefined || known.length < 2) return [];
    const best = isLessBetter ? Math.min(...known) : Math.max(...known);
    return values.flatMap((value, row) => (value === best ? [row] : []));
  });
}
