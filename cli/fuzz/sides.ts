import { InputError } from "../../core/errors.ts";
import type { SideChoice } from "../../lab/fuzz/sides.ts";
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
