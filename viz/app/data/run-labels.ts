import type { RunRow } from "../../api.ts";

/** Settings of a run by name, those that distinguish runs best first. */
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

/** The settings that only a report has: rules, seed, warm-up, simulation and engine options. */
export function reportSettings(report: Readonly<Record<string, unknown>>): Settings {
  const settings: Record<string, string> = {};
  const add = (value: unknown, path: string): void => {
    if (value === null || value === undefined) return;
    if (typeof value === "object") for (const [name, each] of Object.entries(value)) add(each, name);
    else settings[path] ??= `${path} ${value}`;
  };
  const { simulation, engine, seed, warmup } = report;
  const { requestsPerS } = (simulation ?? engine ?? {}) as { requestsPerS?: number | null };
  // The user sets the rate; the speed of the trace is derived from it.
  if (typeof requestsPerS === "number") settings["speed"] = `${requestsPerS} requests/s`;
  add(simulation, "simulation");
  add(engine, "engine");
  add((report["policy"] as Record<string, unknown> | undefined)?.["rules"], "rules");
  add(seed, "seed");
  add(warmup, "warmup");
  return settings;
}

/** The shortest labels that distinguish runs by their settings; runs that differ only in cache size share a label. */
export function runLabels(
  rows: readonly RunRow[],
  more: ReadonlyMap<string, Settings>,
  fallback = ({ preset, eviction }: RunRow) => preset ?? eviction,
): Map<string, string> {
  const all = rows.map((row) => ({ ...rowSettings(row), ...more.get(row.id) }));
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

const colourCount = 8;

/** A colour of the style sheet for each label, in the given order. */
export function labelColours(labels: Iterable<string>): Map<string, string> {
  const colours = new Map<string, string>();
  for (const label of labels) {
    if (!colours.has(label)) colours.set(label, `var(--c${colours.size % colourCount})`);
  }
  return colours;
}
