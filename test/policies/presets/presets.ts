import { type Rules, resolveRules } from "../../../core/plugins/rules.ts";
import type { Preset } from "../../../policies/preset.ts";
import { presetRegistry } from "../../../policies/registry.ts";
import { LiveCache, type LiveConfig, type RequestOptions } from "../../support/live-cache.ts";

/** Name and preset, for `test.each`. */
export const everyPreset = presetRegistry.all.map((preset) => [preset.name, preset] as const);

export const presetNamed = (name: string): Preset => presetRegistry.get(name);

/** The preset's value of every rule. */
export const rulesOf = ({ index, rules }: Preset): Rules => resolveRules(index.defaults ?? {}, rules);

/** The preset's cache, for requests of a test; a letter is a token. */
export function liveOf(name: string, own: LiveConfig = {}): LiveCache {
  const { index, eviction, allocator, rules, blockTokens } = presetNamed(name);
  return new LiveCache({ index, eviction, allocator: allocator.name, rules, blockTokens, ...own });
}

/** `count` distinct tokens, starting with number `first`. */
export const tokens = (count: number, first = 0): string =>
  String.fromCharCode(...Array.from({ length: count }, (_, i) => 0x4e00 + first + i));

/** Serves a request by itself; returns its hit tokens, and those that its first step computed. */
export function serveAlone(
  cache: LiveCache,
  prompt: string,
  options: RequestOptions = {},
): { found: number; computed: number } {
  const sequence = cache.arrive(prompt, options);
  const plan = cache.plan();
  const served = { found: sequence.cachedTokens, computed: plan.items[0].tokens };
  cache.replica.commit(plan, { durationNs: 1 }, cache.now);
  cache.finish();
  return served;
}
