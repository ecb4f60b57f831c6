import type { RunRow, Setting } from "../../api.ts";
import { settingParts } from "../data/format.ts";
import { h } from "./dom.ts";
import { Table } from "./table.ts";

interface Difference {
  readonly name: string;
  readonly a: string;
  readonly b: string;
}

const rowSettings: readonly (keyof RunRow)[] = [
  ...(["trace", "requests", "target", "preset", "index", "eviction", "allocator", "scheduler"] as const),
  ...(["blocks", "blockTokens"] as const),
];

/** The settings of two runs that differ, rules included. */
export function differencesBetween(a: RunRow, b: RunRow): Difference[] {
  const of = (row: RunRow): Readonly<Record<string, unknown>> => ({
    ...Object.fromEntries(rowSettings.map((name) => [name, row[name]])),
    ...row.settings,
  });
  const [left, right] = [of(a), of(b)];
  const names = [...new Set([...Object.keys(left), ...Object.keys(right)])];
  return names
    .filter((name) => (left[name] ?? null) !== (right[name] ?? null))
    .map((name) => ({ name: settingParts(name, "")[0], a: textOf(name, left[name]), b: textOf(name, right[name]) }));
}

const textOf = (name: string, value: unknown) =>
  value === undefined || value === null
    ? name === "blocks"
      ? "unlimited"
      : "–"
    : settingParts(name, value as Setting)[1];

/** A table of the settings that differ between two runs. */
export function configurationDiff(a: RunRow, b: RunRow): HTMLElement {
  const table = new Table<Difference>({
    title: "Settings that differ",
    columns: [
      { name: "name", label: "Setting", value: ({ name }) => name },
      { name: "a", label: a.id, value: (each) => each.a, numeric: false },
      { name: "b", label: b.id, value: (each) => each.b, numeric: false },
    ],
    key: ({ name }) => name,
  });
  const differences = differencesBetween(a, b);
  table.show(differences);
  const none = h("p", { class: "hint", hidden: differences.length > 0 }, "All settings of the two runs are equal.");
  table.element.hidden = differences.length === 0;
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "Settings that differ"), table.saveButtons()),
    none,
    table.element,
  );
}
