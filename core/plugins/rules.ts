import { InputError } from "../errors.ts";

/**
 * The reuse rules: every difference between real systems that is not a plug-in. The first value is the default, unless an
 * index or a preset has another one; `number` means any whole number from 0, and `limit` such a number or `unlimited`, which
 * is the default.
 */
export const ruleTable = {
  "match-limit": {
    values: ["all", "l-1", "block-before-l"],
    about: "maximum hit of a prompt of length L: all of it, L-1 tokens, or blocks that end before L",
  },
  "full-hit": {
    values: ["recompute-last", "rewrite-last", "rewrite-miss", "stored-logits"],
    about:
      "logits of a fully cached prompt: recompute its last token, in a copy of the block if it is shared; recompute it in the shared block, counted as a hit or (rewrite-miss) as a miss; or use stored logits",
  },
  "drop-blocks": {
    values: "number",
    initial: 0,
    about: "matched blocks at the end that are not used, as for speculative decoding",
  },
  publish: {
    values: ["allocation", "step", "chunk", "finish"],
    about:
      "when a block enters the index: at its allocation, after the step that computes it, after each prefill chunk and when the request finishes, or when it finishes (or is preempted)",
  },
  "cache-generated": { values: ["false", "true"], about: "whether output tokens are cached, too" },
  duplicates: {
    values: ["adopt", "keep", "swap", "free", "replace", "share", "newest"],
    about:
      "content that is published twice or cached past a hole. adopt: blocks past a hole are referenced and recomputed in place; keep: both stay cached; swap: the request uses the cached block, its own is freed; free: as swap, but a request that finishes does not renew a node that was cached to its last token; replace: the older block is dropped; share: adopt and swap; newest: both stay cached, the newest is matched",
  },
  "same-step": {
    values: ["hit", "recompute"],
    about:
      "blocks that the step being planned computes: a hit for other requests of the step, or referenced and recomputed",
  },
  victims: {
    values: ["any", "leaf"],
    about: "which idle entries are evictable: any, or only those that no other entry extends",
  },
  "victim-unit": {
    values: ["block", "node", "tail"],
    about: "what one eviction removes: a block, a node of the tree, or the end of a node",
  },
  "node-match": {
    values: ["split", "renew", "whole"],
    about:
      "a node of which a prompt matches only the beginning: it is split, and the rest keeps its recency; it is split, and the rest is renewed, too; or the whole node is renewed and not evictable while the request runs",
  },
  "evict-amount": {
    values: ["missing", "needed"],
    everyIndex: true,
    about:
      "number of evicted blocks if too few are free for an allocation: those that are missing, or as many as are allocated",
  },
  "free-order": {
    values: ["reverse", "forward"],
    about: "order in which one request's blocks are evicted: from the end or from the beginning of the prompt",
  },
  "free-queue": {
    values: ["free-first", "single"],
    about: "order of allocation: free blocks before eviction victims, or both in the order of their release",
  },
  partial: {
    values: ["none", "copy", "steal", "steal-only"],
    about:
      "use of a partially matching block: none; a copy; the block itself if it is an unreferenced leaf, otherwise a copy (steal) or none (steal-only)",
  },
  "store-tail": {
    values: ["false", "true"],
    about: "whether the incomplete last block of a finished request is stored, for partial matches",
  },
  reserve: {
    values: ["grow", "worst-case"],
    about: "blocks for output tokens: allocated as needed, or for all maxOutputTokens at admission",
  },
  "failed-admission": {
    values: ["unchanged", "evicts"],
    everyIndex: true,
    about:
      "a request for which too few blocks are available: the cache does not change, or all evictable blocks are evicted that it does not match",
  },
  collision: { values: ["compare", "trust"], about: "equal hashes are confirmed by comparing content, or trusted" },
  share: {
    values: ["all", "session"],
    everyIndex: true,
    about: "requests that may match cached blocks: all of the namespace, or later requests of the same session",
  },
  "max-entries": { values: "limit", about: "maximum entries of a prompt table, referenced or not" },
  "prefix-blocks": { values: "limit", about: "maximum blocks of a prefix pool" },
  "pin-blocks": { values: "number", initial: 0, everyIndex: true, about: "maximum pinned blocks" },
  "hit-compute": {
    values: ["skip", "recompute"],
    everyIndex: true,
    about:
      "cached tokens of an admitted request: not computed; or computed again in the shared blocks, by a backend that ignores the prefix length",
  },
} as const satisfies Record<
  string,
  { values: readonly string[] | "number" | "limit"; initial?: string | number; everyIndex?: true; about: string }
>;

type Table = typeof ruleTable;
/** Names of the reuse rules. */
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
/** A value of a reuse rule: one of its names, or a number. */
export type RuleValue = string | number;

/** By rule, the values that a plug-in implements. A rule that is not listed may have its default only. */
export type RuleSupport = { readonly [Name in RuleName]?: readonly RuleValue[] | "any" };

function initialOf(name: RuleName): RuleValue {
  const rule: { values: readonly string[] | "number" | "limit"; initial?: RuleValue } = ruleTable[name];
  if (rule.values === "limit") return "unlimited";
  return rule.initial ?? (rule.values as readonly string[])[0];
}

/** Parses one value from the command line. @throws InputError that lists the valid values. */
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

/** All rules: the table's defaults, overridden by each layer in order (index, preset, command line). */
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
