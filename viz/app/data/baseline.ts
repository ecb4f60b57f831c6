import type { RunRow } from "../../api.ts";
import { type Comparison, isBound, nameOf, rowsByLabel } from "./comparison.ts";

/** Prefix of a baseline that is a label: each run is compared with the run of this label and of its own cache size. */
const labelPrefix = "of:";

const sizeKey = ({ trace, requests, capacityTokens }: RunRow) => `${trace} ${requests} ${capacityTokens}`;

/** What the runs of a comparison are compared with. */
export interface Baseline {
  /** One of `choices`. */
  readonly value: string;
  readonly choices: readonly { readonly value: string; readonly label: string }[];
  /** The run that a run is compared with; undefined: none was run at its cache size. */
  of(row: RunRow): RunRow | undefined;
}

/**
 * The requested baseline, or that which is pinned, or the default: the label with the most runs, LRU first, bounds last. A label
 * stands for its runs at each cache size.
 */
export function baselineOf(comparison: Comparison, requested: string | null): Baseline {
  const { rows, labels } = comparison;
  const rank = (group: readonly RunRow[]) =>
    isBound(group[0]) ? 0 : group.length + (group[0].eviction === "lru" ? 0.5 : 0);
  const groups = [...rowsByLabel(rows, labels)]
    .filter(([, group]) => group.length > 1)
    .sort(([, a], [, b]) => rank(b) - rank(a));
  const choices = [
    ...groups.map(([label]) => ({ value: `${labelPrefix}${label}`, label: `${label}, same cache size` })),
    ...rows.map(({ id }) => ({ value: id, label: nameOf(comparison, id) })),
  ];
  const pinned = rows.filter(({ notes }) => notes?.baseline);
  const preferred = [requested, ...pinned.flatMap(({ id }) => [`${labelPrefix}${labels.get(id)}`, id])];
  const isChoice = (wanted: string | null) => choices.some(({ value }) => value === wanted);
  const value = preferred.find(isChoice) ?? choices[0]?.value ?? "";
  const single = rows.find(({ id }) => id === value);
  const same = new Map(
    rows.filter(({ id }) => `${labelPrefix}${labels.get(id)}` === value).map((row) => [sizeKey(row), row]),
  );
  return { value, choices, of: (row) => single ?? same.get(sizeKey(row)) };
}
