import { InputError } from "../../core/errors.ts";
import type { SideChoice } from "../../lab/fuzz/sides.ts";
import { quoted } from "../../lab/output/command-line.ts";
import type { PartNames, Parts } from "../../lab/run/configuration.ts";
import { commaList, parseRuleOption } from "../input/options.ts";

const partKeys: readonly (keyof PartNames)[] = ["preset", "index", "eviction", "allocator", "scheduler"];

/** `lru`, `./mine.ts`, `index=radix-tree` or `preset=sglang,free-order=forward`. @throws InputError */
export function parseSide(text: string): SideChoice {
  if (!text.includes("=")) return { label: text, names: { eviction: text }, rules: {} };
  const names: { -readonly [Name in keyof PartNames]: PartNames[Name] } = {};
  const rules: Parts["rules"] = {};
  for (const item of commaList("--beat", text)) {
    const at = item.indexOf("=");
    const part = partKeys.find((key) => key === item.slice(0, at));
    if (part) names[part] = item.slice(at + 1);
    else if (at > 0) {
      const { name, values } = parseRuleOption(item);
      rules[name] = values[0];
    } else throw new InputError(`--beat has "${item}", expected NAME=VALUE, such as index=radix-tree`);
  }
  return { label: text, names, rules };
}

/** The commands that show what a side does with a trace: one for both where `compare` can, else one each. */
export function commandsFor(
  sides: readonly [SideChoice, SideChoice],
  file: string,
  blocks: number,
  seed: number,
): string[] {
  const size = `--block-size 1 --blocks ${blocks}`;
  const draws = seed === 1 ? "" : ` --seed ${seed}`;
  if (sides.every(({ label }) => !label.includes("=")))
    return [
      `kvlab compare ${quoted(file)} --eviction ${sides.map(({ label }) => quoted(label)).join(",")} ${size}${draws} --first-difference`,
    ];
  return sides.map(({ names, rules }) => {
    const words = [
      ...Object.entries(names).map(([name, value]) => `--${name} ${quoted(value!)}`),
      ...Object.entries(rules).map(([name, value]) => `--rule ${name}=${value}`),
    ];
    return `kvlab replay ${quoted(file)} ${words.join(" ")} ${size}${draws}`;
  });
}
