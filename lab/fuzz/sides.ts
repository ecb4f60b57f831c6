import { commaList, parseRuleOption } from "../../cli/input/options.ts";
import { InputError } from "../../core/errors.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import { quoted } from "../output/save.ts";
import type { PartNames, Parts } from "../run/configuration.ts";
import { partsNamed } from "../run/configuration.ts";
import type { Side } from "./beat.ts";

const partKeys: readonly (keyof PartNames)[] = ["preset", "index", "eviction", "allocator", "scheduler"];

/** What of a configuration is given. */
interface Given {
  readonly names: PartNames;
  readonly rules: Parts["rules"];
}

/** `lru`, `./mine.ts`, `index=radix-tree` or `policy=sglang,free-order=forward`. @throws InputError */
export async function sideOf(text: string, seed: number): Promise<Side> {
  const { names, rules } = given(text);
  const parts = await partsNamed(names, rules);
  const config = (blocks: number) => ({ ...parts, blockTokens: 1, blocks, seed });
  // What cannot be put together is said now.
  new CacheReplay(config(1));
  return { label: text, config };
}

function given(text: string): Given {
  if (!text.includes("=")) return { names: { eviction: text }, rules: {} };
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
  return { names, rules };
}

/** The commands that show what a side does with a trace: one for both where `compare` can, else one each. */
export function commandsFor(labels: readonly [string, string], file: string, blocks: number, seed: number): string[] {
  const size = `--block-size 1 --blocks ${blocks}`;
  const draws = seed === 1 ? "" : ` --seed ${seed}`;
  if (labels.every((label) => !label.includes("=")))
    return [
      `kvlab compare ${quoted(file)} --eviction ${labels.map(quoted).join(",")} ${size}${draws} --first-difference`,
    ];
  return labels.map((label) => {
    const { names, rules } = given(label);
    const words = [
      ...Object.entries(names).map(([name, value]) => `--${name} ${quoted(value!)}`),
      ...Object.entries(rules).map(([name, value]) => `--rule ${name}=${value}`),
    ];
    return `kvlab replay ${quoted(file)} ${words.join(" ")} ${size}${draws}`;
  });
}
