import type { RunRow } from "../../api.ts";
import { approximate, settingParts, settingText } from "./format.ts";
import { grouped } from "./grouped.ts";
import { haveOneSize } from "./line-breaks.ts";

/** A setting by which runs are grouped: into the lines of a figure, its facets, or the rows of a heat map. */
export interface Parameter {
  /** As in `runLabels`, and `capacity` for the cache size. */
  readonly name: string;
  readonly label: string;
  /** A text that makes sense alone. */
  of(row: RunRow): string;
}

const parameter = (name: string, of: Parameter["of"], label = name): Parameter => ({ name, label, of });

const fixed: readonly Parameter[] = [
  parameter("eviction", ({ eviction }) => eviction, "eviction policy"),
  parameter("preset", ({ preset }) => preset ?? "no preset"),
  parameter("index", ({ index }) => index),
  parameter("scheduler", ({ scheduler }) => scheduler),
  parameter("allocator", ({ allocator }) => allocator),
  parameter("block size", ({ blockTokens }) => `${blockTokens}-token blocks`),
  parameter("target", ({ target }) => target),
  parameter("trace", ({ trace }) => trace),
  parameter("requests", ({ requests }) => `${requests} requests`),
];

const size = parameter("capacity", ({ capacityTokens }) => sizeText(capacityTokens), "cache size");

const sizeText = (tokens: number | null) => (tokens === null ? "unlimited" : `${approximate(tokens)} tokens`);

const ofSetting = (name: string): Parameter =>
  parameter(
    name,
    ({ settings }) =>
      settings[name] === undefined ? `no ${settingParts(name, "")[0]}` : settingText(name, settings[name]),
    name === "requestsPerS" ? "offered rate" : settingParts(name, 1)[0],
  );

/** The settings in which the runs differ, those that name systems first. */
export function parametersOf(rows: readonly RunRow[]): Parameter[] {
  const names = [...new Set(rows.flatMap(({ settings }) => Object.keys(settings)))];
  const all = [...fixed, ...(haveOneSize(rows) ? [] : [size]), ...names.map(ofSetting)];
  return all.filter(({ of }) => new Set(rows.map(of)).size > 1);
}

const naturally = new Intl.Collator("en", { numeric: true }).compare;

/** The runs of each value of a parameter; values in natural order, sizes in ascending order. */
export function groupsOf(rows: readonly RunRow[], { name, of }: Parameter): Map<string, RunRow[]> {
  const bySize = (a: RunRow, b: RunRow) =>
    (a.capacityTokens ?? Number.POSITIVE_INFINITY) - (b.capacityTokens ?? Number.POSITIVE_INFINITY);
  const sorted = [...rows].sort((a, b) => (name === "capacity" ? bySize(a, b) : naturally(of(a), of(b))));
  return grouped(sorted, of);
}
