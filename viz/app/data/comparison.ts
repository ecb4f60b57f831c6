import type { RunRow } from "../../api.ts";
import { settingText } from "./format.ts";
import { runLabels } from "./run-labels.ts";
import { boundStyle, type SeriesStyle, seriesStyles } from "./series-style.ts";

/** Runs that are compared, with the label and the style of each in every figure. */
export interface Comparison {
  /** Complete runs, by label and size. */
  readonly rows: readonly RunRow[];
  /** Selected runs that were interrupted: they are listed, but not drawn and not compared. */
  readonly interrupted: readonly RunRow[];
  /** Saved bounds of the same requests that were not selected and lie within the cache sizes of `rows`. */
  readonly bounds: readonly RunRow[];
  /** Why the runs are not of one workload, a sentence for each difference. */
  readonly warnings: readonly string[];
  /** By run id. Runs of one policy at several sizes share a label. */
  readonly labels: ReadonlyMap<string, string>;
  /** By run id: the label without the order of ties and the seed; runs that share it are one band. */
  readonly bandLabels: ReadonlyMap<string, string>;
  /** By label; runs of one band have one style. */
  readonly styles: ReadonlyMap<string, SeriesStyle>;
}

export const emptyComparison: Comparison = {
  ...{
    rows: [],
    interrupted: [],
    bounds: [],
    warnings: [],
    labels: new Map(),
    bandLabels: new Map(),
    styles: new Map(),
  },
};

/** Whether a run is a bound: the offline optimum, or an unlimited cache. */
export const isBound = ({ eviction, blocks }: RunRow): boolean => eviction === "belady" || blocks === null;

/** Whether a run has latencies and a throughput: of a simulation or an engine, not of a cache replay. */
export const isTimed = ({ requestsPerS }: RunRow): boolean => requestsPerS !== undefined;

/** The comparison of the selected runs; `all`: the saved runs, for bounds that were not selected. */
export function comparisonOf(selected: readonly RunRow[], all: readonly RunRow[]): Comparison {
  const complete = selected.filter(({ interrupted }) => !interrupted);
  const bounds = boundsOf(complete, all);
  const labels = labelsOf([...complete, ...bounds]);
  const bandLabels = labelsOf([...complete, ...bounds], bandAxes);
  for (const row of selected.filter(({ interrupted }) => interrupted)) labels.set(row.id, `${row.id} (interrupted)`);
  const sorted = (some: readonly RunRow[]) =>
    [...some].sort((a, b) => naturally(labels.get(a.id)!, labels.get(b.id)!) || sizeOf(a) - sizeOf(b));
  const rows = sorted(complete);
  const online = rows.filter((row) => !isBound(row));
  const bandStyles = seriesStyles(online.map((row) => [bandLabels.get(row.id)!, row.preset ?? row.eviction]));
  return {
    ...{ rows, labels, bandLabels, bounds: sorted(bounds), warnings: warningsOf(complete) },
    interrupted: sorted(selected.filter(({ interrupted }) => interrupted)),
    styles: new Map(online.map(({ id }) => [labels.get(id)!, bandStyles.get(bandLabels.get(id)!)!])),
  };
}

const sizeOf = ({ capacityTokens }: RunRow) => capacityTokens ?? Number.POSITIVE_INFINITY;
const workloadOf = ({ trace, requests, settings }: RunRow) => `${requests} ${settings["warmup"]} ${trace}`;

/**
 * Saved bounds that are valid for all rows, if these are of the same requests: the unlimited cache, and the offline optimum
 * within the sizes of the rows, with the same rule `cache-generated`, as caching output tokens raises the optimum. An
 * unlimited cache that caches output tokens bounds every run. Of bounds with equal values one is kept.
 */
function boundsOf(rows: readonly RunRow[], all: readonly RunRow[]): RunRow[] {
  const workloads = new Set(rows.map(workloadOf));
  if (workloads.size !== 1) return [];
  const [known, sizes] = [new Set(rows), rows.filter((row) => !isBound(row)).map(sizeOf)];
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const caches = ({ settings }: RunRow) => settings["cache-generated"];
  const isValid = (row: RunRow) =>
    row.target === "cache" &&
    isBound(row) &&
    !row.interrupted &&
    !known.has(row) &&
    workloads.has(workloadOf(row)) &&
    (row.blocks === null || (sizeOf(row) >= least && sizeOf(row) <= most)) &&
    ((row.blocks === null && caches(row) === "true") || rows.every((each) => caches(each) === caches(row)));
  const valuesOf = ({ requests, blocks, hitRatio }: RunRow) => JSON.stringify([requests, blocks, hitRatio]);
  return [...new Map(all.filter(isValid).map((row) => [valuesOf(row), row])).values()];
}

/** What a workload is, and the text of its value in a run; rates and speeds matter to runs with a clock only. */
const workloadParts: readonly (readonly [what: string, of: (row: RunRow) => string | undefined])[] = [
  ["traces", ({ trace }) => trace],
  ["numbers of requests", ({ requests }) => String(requests)],
  ["warm-ups", ({ settings }) => `${settings["warmup"] ?? 0} requests`],
  ["kinds of target", (row) => (isBound(row) ? undefined : isTimed(row) ? "with a clock" : "without a clock")],
  ["targets", (row) => (isTimed(row) ? row.target : undefined)],
  ["models", (row) => settingOf(row, "model")],
  ["arrivals", (row) => (isTimed(row) ? (settingOf(row, "requestsPerS") ?? "as in the trace") : undefined)],
  ["speeds", (row) => ("requestsPerS" in row.settings ? undefined : settingOf(row, "speed"))],
];

function settingOf({ settings }: RunRow, name: string): string | undefined {
  const value = settings[name];
  return value === undefined ? undefined : settingText(name, value);
}

const listedValues = 5;
const naturally = new Intl.Collator("en", { numeric: true }).compare;

function warningsOf(rows: readonly RunRow[]): string[] {
  return workloadParts.flatMap(([what, of]) => {
    const values = [...new Set(rows.map(of))].filter((value) => value !== undefined).sort(naturally);
    if (values.length < 2) return [];
    const more = values.length > listedValues ? `, and ${values.length - listedValues} more` : "";
    return [`Different ${what}: ${values.slice(0, listedValues).join(", ")}${more}.`];
  });
}

/** Settings that policies leave open: the order of ties and the seed. */
const bandAxes = ["free-order", "seed"];

/** Labels of runs, without the settings `omitted`; those of bounds begin with the kind of the bound. */
function labelsOf(rows: readonly RunRow[], omitted: readonly string[] = []): Map<string, string> {
  const named = (some: readonly RunRow[], name: string): [string, string][] => {
    const labels = runLabels(some, { fallback: () => "", omitted });
    return some.map(({ id }) => [id, [name, labels.get(id)].filter(Boolean).join(" · ")]);
  };
  const isUnlimited = ({ blocks }: RunRow) => blocks === null;
  return new Map([
    ...runLabels(
      rows.filter((row) => !isBound(row)),
      { omitted },
    ),
    ...named(
      rows.filter((row) => isBound(row) && !isUnlimited(row)),
      "offline optimum",
    ),
    ...named(rows.filter(isUnlimited), "unlimited cache"),
  ]);
}

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

/** The style of a run in every figure. */
export const styleOf = ({ labels, styles }: Comparison, { id }: RunRow): SeriesStyle =>
  styles.get(labels.get(id) ?? "") ?? boundStyle;

const namesByComparison = new WeakMap<Comparison, ReadonlyMap<string, string>>();

/** The name that users gave to a run; or its label, followed by its cache size, or else by its id, if several runs share it. */
export function nameOf(comparison: Comparison, id: string): string {
  const names = namesByComparison.get(comparison) ?? namesOf(comparison);
  namesByComparison.set(comparison, names);
  return names.get(id) ?? id;
}

function namesOf({ rows, bounds, interrupted, labels }: Comparison): Map<string, string> {
  const all = [...rows, ...bounds, ...interrupted];
  const named = all.flatMap(({ id, notes }) => (notes?.name === undefined ? [] : [[id, notes.name] as const]));
  const labelled = [...rowsByLabel(all, labels)].flatMap(([label, group]) => {
    if (group.length === 1) return [[group[0].id, label] as const];
    const differInSize = new Set(group.map(({ blocks }) => blocks)).size === group.length;
    return group.map(({ id, blocks }) => [id, `${label} · ${differInSize ? `${blocks} blocks` : id}`] as const);
  });
  return new Map([...labelled, ...named]);
}
