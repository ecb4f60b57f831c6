/** A row of a table: the names of a configuration, and what was measured. */
export interface TableRow {
  readonly names: readonly string[];
  readonly cells: readonly string[];
  /** Equal for rows with the same results. */
  readonly key: string;
}

/**
 * One row for all that have the same results, under the names of the first; `equal` lists the others, `first` are the numbers of
 * the rows that remain.
 */
export function mergedRows(rows: readonly TableRow[]): {
  readonly rows: readonly (readonly string[])[];
  readonly equal: readonly string[];
  readonly first: readonly number[];
} {
  const groups = new Map<string, number[]>();
  for (const [at, { key }] of rows.entries()) groups.set(key, [...(groups.get(key) ?? []), at]);
  const all = [...groups.values()];
  const nameOf = (at: number) => rows[at].names.filter((name) => name !== "").join(" ");
  return {
    rows: all.map((group) => {
      const { names, cells } = rows[group[0]];
      const others = group.length === 1 ? "" : ` (+${group.length - 1} equal)`;
      return [...names.slice(0, -1), names.at(-1)! + others, ...cells];
    }),
    equal: all.filter((group) => group.length > 1).map((group) => `Equal: ${group.map(nameOf).join(", ")}.`),
    first: all.map(([at]) => at),
  };
}
