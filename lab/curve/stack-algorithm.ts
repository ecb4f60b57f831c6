import { type RuleName, type RuleValue, ruleNames } from "../../core/plugins/rules.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import { block } from "../../policies/allocator/index.ts";
import { lru, lruDeepest } from "../../policies/eviction/index.ts";
import { blockTrie, hashTable, radixTree } from "../../policies/index/index.ts";
import { naive } from "../../policies/scheduler/index.ts";
import type { Parts } from "../run/configuration.ts";
import type { EvictionOrder } from "./recency-stack.ts";

type Values = Partial<Record<RuleName, readonly RuleValue[] | "any">>;

/** By rule, the values with which LRU is a stack algorithm; of other rules only the default of the index. */
const stackRules: Values = {
  "full-hit": ["recompute-last", "rewrite-last"],
  publish: "any",
  "same-step": "any",
  "free-order": "any",
  reserve: "any",
  "failed-admission": "any",
  share: "any",
  "pin-blocks": "any",
  "hit-compute": "any",
};

/** Rules with more values where a cached block that is no hit is referenced in place, and not duplicated. */
const adoptingRules: Values = { "match-limit": "any", "drop-blocks": "any" };

/**
 * The order in which a configuration evicts the blocks of one request, if its hits at all sizes follow from one LRU stack; otherwise
 * undefined. docs/curve.md has the proof for each case.
 */
export function stackOrder({
  index,
  eviction,
  allocator,
  scheduler,
  rules: given,
}: StackParts): EvictionOrder | undefined {
  if (eviction !== lru && eviction !== lruDeepest) return undefined;
  if (allocator !== block || scheduler !== naive) return undefined;
  if (index !== hashTable && index !== blockTrie && index !== radixTree) return undefined;
  const rules = rulesFor(index, given);
  const defaults = rulesFor(index, {});
  const values: Values = {
    ...stackRules,
    ...(index === hashTable && adoptingRules),
    ...(index === blockTrie && { victims: ["leaf", "any"] }),
    ...(index === radixTree && { "victim-unit": ["tail", "block"] }),
  };
  const allows = (name: RuleName) => {
    const allowed = values[name] ?? [defaults[name]];
    return allowed === "any" || allowed.includes(rules[name]);
  };
  if (!ruleNames.every(allows)) return undefined;
  // A leaf is the end of a prompt, and lru-deepest evicts the end first, whatever the order of the release.
  if (rules["free-order"] === "reverse" || eviction === lruDeepest) return "reverse";
  if (index === hashTable) return "forward";
  return rules.victims === "leaf" ? "reverse" : undefined;
}

type StackParts = Pick<Parts, "index" | "eviction" | "allocator" | "scheduler" | "rules">;
