import type { RunRow } from "../../api.ts";
import { settingText } from "./format.ts";

/** Settings of a run by name, as texts, those that distinguish runs best first. */
type Settings = Readonly<Record<string, string>>;

const rowSettings = (row: RunRow): Settings => ({
  trace: row.trace,
  preset: row.preset ?? "",
  eviction: row.eviction,
  index: row.index,
  scheduler: row.scheduler,
  allocator: row.allocator,
  "block size": `${row.blockTokens}-token blocks`,
  target: row.target,
  requests: `${row.requests} requests`,
});

const rowSettingNames: readonly string[] = Object.keys(rowSettings({} as RunRow));

/** All settings of a run; the speed of the trace is left out where the rate is set, which it follows from. */
function settingsOf(row: RunRow): Settings {
  const named = Object.entries(row.settings).filter(([name]) => name !== "speed" || !("requestsPerS" in row.settings));
  return { ...rowSettings(row), ...Object.fromEntries(named.map(([name, value]) => [name, settingText(name, value)])) };
}

export interface LabelOptions {
  /** The label where no setting distinguishes the runs. */
  fallback?(row: RunRow): string;
  /** Settings that are in no label. */
  readonly omitted?: readonly string[];
}

/** The shortest labels that distinguish runs by their settings; runs that differ only in cache size share a label. */
export function runLabels(
  rows: readonly RunRow[],
  { fallback = ({ preset, eviction }) => preset ?? eviction, omitted = [] }: LabelOptions = {},
): Map<string, string> {
  const all = rows.map((row) => {
    const settings = settingsOf(row);
    return Object.fromEntries(Object.entries(settings).filter(([name]) => !omitted.includes(name)));
  });
  const names = [
    ...rowSettingNames,
    ...new Set(all.flatMap((settings) => Object.keys(settings)).filter((name) => !rowSettingNames.includes(name))),
  ];
  const distinguishing: string[] = [];
  const groups = (by: readonly string[]) =>
    new Set(all.map((settings) => by.map((name) => settings[name] ?? "").join("\n"))).size;
  for (const name of names) if (groups([...distinguishing, name]) > groups(distinguishing)) distinguishing.push(name);
  const common = commonTexts(all, distinguishing);
  return new Map(
    rows.map((row, i) => {
      const texts = distinguishing.map((name) => all[i][name]).filter((text) => text && !common.has(text));
      return [row.id, texts.join(" · ") || fallback(row)];
    }),
  );
}

/** Settings that are always in a label if they distinguish runs. */
const alwaysShown = ["trace", "preset", "eviction", "index", "scheduler", "allocator"];

/** Values of the other settings that most runs share and that can be omitted without making two labels equal. */
function commonTexts(all: readonly Settings[], distinguishing: readonly string[]): ReadonlySet<string> {
  const common = new Set<string>();
  const groups = () =>
    new Set(
      all.map((settings) =>
        distinguishing
          .map((name) => settings[name] ?? "")
          .filter((text) => !common.has(text))
          .join("\n"),
      ),
    ).size;
  const distinct = groups();
  for (const name of distinguishing.filter((each) => !alwaysShown.includes(each))) {
    const counts = new Map<string, number>();
    for (const settings of all) counts.set(settings[name] ?? "", (counts.get(settings[name] ?? "") ?? 0) + 1);
    const [text, count] = [...counts].reduce((most, each) => (each[1] > most[1] ? each : most));
    if (text === "" || count <= all.length / 2) continue;
    common.add(text);
    if (groups() < distinct) common.delete(text);
  }
  return common;
}
