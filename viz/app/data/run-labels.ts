import type { RunRow } from "../../api.ts";
import { settingText } from "./format.ts";

/** Texts of the settings that every run has, those that distinguish runs best first. */
const rowSettings: Readonly<Record<string, (row: RunRow) => string>> = {
  trace: ({ trace }) => trace,
  preset: ({ preset }) => preset ?? "",
  eviction: ({ eviction }) => eviction,
  index: ({ index }) => index,
  scheduler: ({ scheduler }) => scheduler,
  allocator: ({ allocator }) => allocator,
  "block size": ({ blockTokens }) => `${blockTokens}-token blocks`,
  target: ({ target }) => target,
  requests: ({ requests }) => `${requests} requests`,
};

/** A setting in which the runs differ: its text in each run, "" where a run lacks it. */
interface Differing {
  readonly name: string;
  readonly texts: readonly string[];
}

type Settings = RunRow["settings"];

/** The settings in which the runs differ. */
function differingSettings(rows: readonly RunRow[], omitted: readonly string[]): Differing[] {
  // Runs with equal settings share them.
  const distinct = [...new Set(rows.map(({ settings }) => settings))];
  const named = new Set(distinct.flatMap((settings) => Object.keys(settings)));
  const ofRows = Object.entries(rowSettings).filter(([name]) => !named.has(name));
  const all = [
    ...ofRows.map(([name, textOf]) => ({ name, texts: rows.map(textOf) })),
    ...[...named].flatMap((name) => {
      const texts = new Map(distinct.map((settings) => [settings, textIn(settings, name)]));
      return new Set(texts.values()).size < 2
        ? []
        : [{ name, texts: rows.map(({ settings }) => texts.get(settings)!) }];
    }),
  ];
  return all.filter(({ name, texts }) => !omitted.includes(name) && texts.some((text) => text !== texts[0]));
}

/** The text of a setting; "" if there is none. The speed of the trace is left out where the rate is set, which it follows from. */
const textIn = (settings: Settings, name: string): string =>
  !(name in settings) || (name === "speed" && "requestsPerS" in settings) ? "" : settingText(name, settings[name]);

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
  const distinguishing: Differing[] = [];
  let groups = new Groups(rows.length);
  for (const setting of differingSettings(rows, omitted)) {
    const finer = groups.splitBy(setting.texts);
    if (finer.count === groups.count) continue;
    distinguishing.push(setting);
    groups = finer;
  }
  const common = commonTexts(rows.length, distinguishing);
  return new Map(
    rows.map((row, i) => {
      const texts = distinguishing.map((setting) => setting.texts[i]).filter((text) => text && !common.has(text));
      return [row.id, texts.join(" · ") || fallback(row)];
    }),
  );
}

/** Runs by the settings so far: the number of the group of each run. */
class Groups {
  readonly count: number;
  readonly #numbers: Float64Array;

  constructor(length: number, numbers = new Float64Array(length), count = Math.min(1, length)) {
    this.#numbers = numbers;
    this.count = count;
  }

  /** The groups of runs that are in one group and have one text. */
  splitBy(texts: readonly string[]): Groups {
    const known = new Map<number, number>();
    const codes = new Map<string, number>();
    const numbers = this.#numbers.map((group, i) => {
      const code = codes.get(texts[i]) ?? codes.size;
      codes.set(texts[i], code);
      const key = group * texts.length + code;
      const number = known.get(key) ?? known.size;
      known.set(key, number);
      return number;
    });
    return new Groups(texts.length, numbers, known.size);
  }
}

/** Settings that are always in a label if they distinguish runs. */
const alwaysShown = ["trace", "preset", "eviction", "index", "scheduler", "allocator"];

/** Texts of the other settings that most runs share and that can be omitted without making two labels equal. */
function commonTexts(length: number, distinguishing: readonly Differing[]): ReadonlySet<string> {
  const common = new Set<string>();
  const groups = () => {
    const labels = Array.from({ length }, (_, i) =>
      distinguishing
        .map(({ texts }) => texts[i])
        .filter((text) => !common.has(text))
        .join("\n"),
    );
    return new Set(labels).size;
  };
  const distinct = groups();
  for (const { texts } of distinguishing.filter(({ name }) => !alwaysShown.includes(name))) {
    const counts = new Map<string, number>();
    for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
    const [text, count] = [...counts].reduce((most, each) => (each[1] > most[1] ? each : most));
    if (text === "" || count <= length / 2) continue;
    common.add(text);
    if (groups() < distinct) common.delete(text);
  }
  return common;
}
