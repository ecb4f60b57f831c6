import type { RunRow } from "../../api.ts";

/** Runs that are compared, with the label and the colour of each in every figure. */
export interface Comparison {
  readonly rows: readonly RunRow[];
  /** Saved bounds of the same trace that were not selected and lie within the cache sizes of `rows`. */
  readonly bounds: readonly RunRow[];
  /** Bounds exist, but too many runs are selected to check which bounds are valid for all of them. */
  readonly areBoundsUnchecked: boolean;
  /** By run id. Runs of one policy at several sizes share a label. */
  readonly labels: ReadonlyMap<string, string>;
  /** By run id: the label without the order of ties and the seed; runs that share it are one band. */
  readonly bandLabels: ReadonlyMap<string, string>;
  /** By label; runs of one band have one colour. */
  readonly colours: ReadonlyMap<string, string>;
}

/** A figure or table of a comparison; `show` is called again when the runs change. */
export interface ComparisonFigure {
  readonly element: HTMLElement;
  show(comparison: Comparison): void;
}

/** Whether a run is a bound: the offline optimum, or an unlimited cache. */
export const isBound = ({ eviction, blocks }: RunRow): boolean => eviction === "belady" || blocks === null;

/** Whether a run has latencies and a throughput: of a simulation or an engine, not of a cache replay. */
export const isTimed = ({ requestsPerS }: RunRow): boolean => requestsPerS !== undefined;

/** Runs by their label: those of one policy at several cache sizes. */
export function rowsByLabel(rows: readonly RunRow[], labels: Comparison["labels"]): Map<string, RunRow[]> {
  const groups = new Map<string, RunRow[]>();
  for (const row of rows) {
    const label = labels.get(row.id) ?? row.id;
    const group = groups.get(label);
    if (group) group.push(row);
    else groups.set(label, [row]);
  }
  return groups;
}

/** The colour of a run in every figure. */
export const colourOf = ({ labels, colours }: Comparison, { id }: RunRow): string =>
  colours.get(labels.get(id) ?? "") ?? "var(--bound)";

const namesByComparison = new WeakMap<Comparison, ReadonlyMap<string, string>>();

/** A run's label, followed by its cache size if several runs share the label. */
export function nameOf(comparison: Comparison, id: string): string {
  const names = namesByComparison.get(comparison) ?? namesOf(comparison);
  namesByComparison.set(comparison, names);
  return names.get(id) ?? id;
}

function namesOf(comparison: Comparison): Map<string, string> {
  const all = [...comparison.rows, ...comparison.bounds];
  return new Map(
    [...rowsByLabel(all, comparison.labels)].flatMap(([label, group]) => {
      if (group.length === 1) return [[group[0].id, label] as const];
      const differInSize = new Set(group.map(({ blocks }) => blocks)).size === group.length;
      return group.map(
        ({ id, blocks }) => [id, `${label} · ${differInSize ? `${blocks} blocks` : id.slice(-8)}`] as const,
      );
    }),
  );
}
