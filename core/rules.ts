import { InputError } from "./errors.ts";

/**
 * The reuse rules: every point where real systems differ that is not a plug-in. They are data. The first value is the
 * default unless an index or a preset says otherwise; `number` means any whole number from 0.
 */
export const ruleTable = {
  "match-limit": {
    values: ["all", "l-1", "block-before-l"],
    about: "how much of a prompt of length L may be a hit: all, at most L-1 tokens, blocks that end before L",
  },
  "full-hit": {
    values: ["recompute-last", "stored-logits"],
    about: "a prompt that is cached to its end computes its last token again, or uses stored logits",
  },
  "drop-blocks": { values: "number", initial: 0, about: "matched blocks given back, as for speculative decoding" },
  publish: {
    values: ["allocation", "step", "chunk", "finish"],
    about:
      "when a block can be found: when allocated, after the step that computes it, after each prefill chunk, at the end",
  },
  "cache-generated": { values: ["false", "true"], about: "whether generated tokens are cached too" },
  duplicates: {
    values: ["adopt", "keep", "swap", "replace"],
    about:
      "content that is resident past a hole, or is published twice: held and recomputed in place, both kept, the own copy given up, the newest found",
  },
  victims: {
    values: ["any", "leaf"],
    about: "which idle entries may be evicted: any, or only those that nothing extends",
  },
  "victim-unit": { values: ["block", "node", "tail"], about: "what one eviction takes of a tree's node" },
  "free-order": {
    values: ["reverse", "forward"],
    about: "of one request's blocks the deepest goes first, or the first block goes first",
  },
  "free-queue": {
    values: ["free-first", "single"],
    about: "never-published blocks are taken before victims, or all wait in one queue",
  },
  partial: {
    values: ["none", "copy", "steal"],
    about: "use of a block that matches in part: none, copied, taken over if idle",
  },
  reserve: {
    values: ["grow", "worst-case"],
    about: "blocks for the answer: as it grows, or all of maxOutputTokens at admission",
  },
  collision: { values: ["compare", "trust"], about: "equal hashes are confirmed by comparing content, or trusted" },
  "max-entries": { values: "number", initial: 0, about: "most entries of a prompt table; 0 = unlimited" },
  "prefix-blocks": { values: "number", initial: 0, about: "most blocks of a prefix pool; 0 = unlimited" },
} as const satisfies Record<string, { values: readonly string[] | "number"; initial?: string | number; about: string }>;

type Table = typeof ruleTable;
export type RuleName = keyof Table;
export const ruleNames = Object.keys(ruleTable) as RuleName[];

/** Every rule with its value. */
export type Rules = {
  readonly [Name in RuleName]: Table[Name]["values"] extends readonly (infer Value)[] ? Value : number;
};
export type RuleValue = string | number;

/** What a part can do: for a rule, the values that it implements. A rule that is not named may keep its default only. */
export type RuleSupport = { readonly [Name in RuleName]?: readonly RuleValue[] | "any" };

function initialOf(name: RuleName): RuleValue {
  const rule: { values: readonly string[] | "number"; initial?: RuleValue } = ruleTable[name];
  return rule.initial ?? (rule.values as readonly string[])[0];
}

/** Parses one value as written on the command line. @throws InputError with the values there are. */
export function parseRule(name: string, value: string): RuleValue {
  if (!(name in ruleTable)) throw new InputError(`unknown rule "${name}", expected one of ${ruleNames.join(", ")}`);
  const { values } = ruleTable[name as RuleName];
  if (values === "number") {
    const number = Number(value);
    if (!/^\d+$/.test(value) || !Number.isSafeInteger(number)) {
      throw new InputError(`rule ${name} is "${value}", expected a whole number from 0`);
    }
    return number;
  }
  if (!(values as readonly string[]).includes(value)) {
    throw new InputError(`rule ${name} is "${value}", expected one of ${values.join(", ")}`);
  }
  return value;
}

/** All rules: the table's defaults, then each layer over the one before (index, preset, command line). */
export function resolveRules(...layers: readonly Partial<Record<RuleName, RuleValue>>[]): Rules {
  const rules: Record<string, RuleValue> = {};
  for (const name of ruleNames) rules[name] = initialOf(name);
  for (const layer of layers) Object.assign(rules, layer);
  return rules as Rules;
}

/** @throws InputError naming the first rule whose value `support` does not implement. */
export function checkSupport(rules: Rules, part: string, support: RuleSupport): void {
  for (const name of ruleNames) {
    const can: readonly RuleValue[] | "any" = support[name] ?? [initialOf(name)];
    const value: RuleValue = rules[name];
    if (can !== "any" && !can.includes(value)) {
      throw new InputError(`${part} does not support rule ${name}=${value}; it supports ${name}=${can.join("|")}`);
    }
  }
}
