import { InputError } from "../errors.ts";

/**
 * The reuse rules: every point where real systems differ that is not a plug-in. They are data. The first value is the
 * default unless an index or a preset says otherwise; `number` means any whole number from 0, and `limit` such a number or
 * `unlimited`, which is the default.
 */
export const ruleTable = {
  "match-limit": {
    values: ["all", "l-1", "block-before-l"],
    about: "how much of a prompt of length L may be a hit: all, at most L-1 tokens, blocks that end before L",
  },
  "full-hit": {
    values: ["recompute-last", "rewrite-last", "stored-logits"],
    about:
      "a prompt that is cached to its end computes its last token again, in a copy if others use the block or into the block itself, or uses stored logits",
  },
  "drop-blocks": { values: "number", initial: 0, about: "matched blocks given back, as for speculative decoding" },
  publish: {
    values: ["allocation", "step", "chunk", "finish"],
    about:
      "when a block can be found: when allocated, after the step that computes it, after each prefill chunk and at the end, at the end (or when its request is preempted)",
  },
  "cache-generated": { values: ["false", "true"], about: "whether generated tokens are cached too" },
  duplicates: {
    values: ["adopt", "keep", "swap", "replace", "share", "newest"],
    about:
      "content that is resident past a hole, or is published twice: held and recomputed in place, both kept, the own copy given up, the newest kept, the first and the third of these together, both kept and the newest found",
  },
  "same-step": {
    values: ["hit", "recompute"],
    about: "what the step under way is still to compute: a hit, as others of it are, or held and computed once more",
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
    values: ["none", "copy", "steal", "steal-only"],
    about:
      "use of a partially matching block: none, copied, or taken over if it is unreferenced and a leaf, else copied or left",
  },
  "store-tail": {
    values: ["false", "true"],
    about: "whether what a finished request has in its last, incomplete block is stored, to be found in part",
  },
  reserve: {
    values: ["grow", "worst-case"],
    about: "blocks for the answer: as it grows, or all of maxOutputTokens at admission",
  },
  collision: { values: ["compare", "trust"], about: "equal hashes are confirmed by comparing content, or trusted" },
  share: {
    values: ["all", "session"],
    everyIndex: true,
    about: "which requests may match cached blocks: all of the namespace, or only later requests of the same session",
  },
  "max-entries": { values: "limit", about: "most entries of a prompt table, in use or not" },
  "prefix-blocks": { values: "limit", about: "most blocks of a prefix pool" },
  "pin-blocks": { values: "number", initial: 0, everyIndex: true, about: "most blocks that may be pinned" },
} as const satisfies Record<
  string,
  { values: readonly string[] | "number" | "limit"; initial?: string | number; everyIndex?: true; about: string }
>;

type Table = typeof ruleTable;
export type RuleName = keyof Table;
export const ruleNames = Object.keys(ruleTable) as RuleName[];

/** Every rule with its value. */
export type Rules = {
  readonly [Name in RuleName]: Table[Name]["values"] extends readonly (infer Value)[]
    ? Value
    : Table[Name]["values"] extends "limit"
      ? number | "unlimited"
      : number;
};
export type RuleValue = string | number;

/** What a part can do: for a rule, the values that it implements. A rule that is not named may keep its default only. */
export type RuleSupport = { readonly [Name in RuleName]?: readonly RuleValue[] | "any" };

function initialOf(name: RuleName): RuleValue {
  const rule: { values: readonly string[] | "number" | "limit"; initial?: RuleValue } = ruleTable[name];
  if (rule.values === "limit") return "unlimited";
  return rule.initial ?? (rule.values as readonly string[])[0];
}

/** Parses one value as written on the command line. @throws InputError with the values there are. */
export function parseRule(name: string, value: string): RuleValue {
  if (!(name in ruleTable)) throw new InputError(`unknown rule "${name}", expected one of ${ruleNames.join(", ")}`);
  const { values } = ruleTable[name as RuleName];
  if (values === "number" || values === "limit") {
    if (values === "limit" && value === "unlimited") return value;
    const number = Number(value);
    if (!/^\d+$/.test(value) || !Number.isSafeInteger(number)) {
      const expected = values === "limit" ? "a whole number from 0 or unlimited" : "a whole number from 0";
      throw new InputError(`rule ${name} is "${value}", expected ${expected}`);
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
    const can: readonly RuleValue[] | "any" =
      "everyIndex" in ruleTable[name] ? "any" : (support[name] ?? [initialOf(name)]);
    const value: RuleValue = rules[name];
    if (can !== "any" && !can.includes(value)) {
      throw new InputError(`${part} does not support rule ${name}=${value}; it supports ${name}=${can.join("|")}`);
    }
  }
}
