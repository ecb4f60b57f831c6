import type { RunRow } from "../api.ts";

/** Runs side by side, with the words and colours that they have in every figure. */
export interface Compared {
  readonly rows: readonly RunRow[];
  /** Bounds of the same trace that were not asked for, at the sizes of these runs. */
  readonly bounds: readonly RunRow[];
  /** There are bounds, and too many runs to ask whether they hold for all. */
  readonly isUnchecked: boolean;
  readonly labels: ReadonlyMap<string, string>;
  readonly colours: ReadonlyMap<string, string>;
}

/** A figure of the runs that are compared, which may be others later. */
export interface ComparedFigure {
  readonly element: HTMLElement;
  show(compared: Compared): void;
}

/** A bound that no policy passes: the offline optimum, or a cache without end. */
export const isBound = ({ eviction, blocks }: RunRow): boolean => eviction === "belady" || blocks === null;

export const isTimed = ({ requestsPerS }: RunRow): boolean => requestsPerS !== undefined;

/** Runs that are called the same: those of one policy, at several sizes. */
export function byLabel({ rows, labels }: Compared): Map<string, RunRow[]> {
  const found = new Map<string, RunRow[]>();
  for (const row of rows) {
    const label = labels.get(row.id) ?? row.id;
    const same = found.get(label);
    if (same) same.push(row);
    else found.set(label, [row]);
  }
  return found;
}

/** The colour of a run in every figure. */
export const colourOf = ({ labels, colours }: Compared, { id }: RunRow): string =>
  colours.get(labels.get(id) ?? "") ?? "var(--bound)";

const names = new WeakMap<Compared, ReadonlyMap<string, string>>();

/** A label, with the size where runs of several sizes have it. */
export function nameOf(compared: Compared, id: string): string {
  const known = names.get(compared) ?? namesOf(compared);
  names.set(compared, known);
  return known.get(id) ?? id;
}

function namesOf(compared: Compared): Map<string, string> {
  const all = { ...compared, rows: [...compared.rows, ...compared.bounds] };
  return new Map(
    [...byLabel(all)].flatMap(([label, same]) => {
      if (same.length === 1) return [[same[0].id, label] as const];
      const areSizes = new Set(same.map(({ blocks }) => blocks)).size === same.length;
      return same.map(({ id, blocks }) => [id, `${label} · ${areSizes ? `${blocks} blocks` : id.slice(-8)}`] as const);
    }),
  );
}
