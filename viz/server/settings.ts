import type { Setting } from "../api.ts";

/** Fields of a simulation or an engine that describe its results or repeat other settings. */
const omitted: ReadonlySet<string> = new Set(["costNote", "efficiency", "kvBytesPerToken"]);

/** The settings of a report by name: of the simulation or engine, of the scheduler, the rules, the seed, the warm-up and the SLO. */
export function settingsOf(report: Readonly<Record<string, unknown>>): Map<string, Setting> {
  const settings = new Map<string, Setting>();
  const add = (values: unknown): void => {
    if (typeof values !== "object" || values === null) return;
    for (const [name, value] of Object.entries(values)) {
      if (omitted.has(name) || name.length > maxLength) continue;
      if (typeof value === "object") add(value);
      else if (typeof value === "string") settings.set(name, value.slice(0, maxLength));
      else if (typeof value === "number" || typeof value === "boolean") settings.set(name, value);
    }
  };
  const policy = (report["policy"] ?? {}) as Readonly<Record<string, unknown>>;
  add(report["simulation"]);
  add(report["engine"]);
  add(policy["schedulerOptions"]);
  add(policy["rules"]);
  add({ seed: report["seed"], warmup: report["warmup"] });
  const slo = sloText(report["slo"]);
  if (slo !== "") settings.set("slo", slo);
  return settings;
}

const maxLength = 200;

/** The limits of the SLO: "ttftMs=500 tpotMs=50". */
function sloText(slo: unknown): string {
  const limits = Object.entries((slo ?? {}) as object).filter(([name]) => name.endsWith("Ms"));
  return limits
    .map(([name, value]) => `${name}=${value}`)
    .join(" ")
    .slice(0, maxLength);
}

/** Numbers settings: equal ones of several runs have one number, so that the list of runs is short. */
export class SettingNumbers {
  readonly all: (readonly [name: string, value: Setting])[] = [];
  readonly #numbers = new Map<string, number>();

  numberOf(name: string, value: Setting): number {
    const key = JSON.stringify([name, value]);
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    this.#numbers.set(key, this.all.length);
    return this.all.push([name, value]) - 1;
  }
}
