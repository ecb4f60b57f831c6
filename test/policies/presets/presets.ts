import { type Rules, resolveRules } from "../../../core/plugins/rules.ts";
import type { Preset } from "../../../policies/preset.ts";
import { presetRegistry } from "../../../policies/registry.ts";
import { LiveCache, type LiveConfig, type RequestOptions } from "../../support/live-cache.ts";

/** Name and preset, for `test.each`. */
export const everyPreset = presetRegistry.all.map((preset) => [preset.name, preset] as const);

export const presetNamed = (name: string): Preset => presetRegistry.get(name);

/** Every rule as the preset has it. */
export const rulesOf = ({ index, rules }: Preset): Rules => resolveRules(index.defaults ?? {}, rules);

/** The preset's cache, for requests that a test writes out; a letter is a token. */
export function liveOf(name: string, own: LiveConfig = {}): LiveCache {
  const { index, eviction, allocator, rules, blockTokens } = presetNamed(name);
  return new LiveCache({ index, eviction, allocator: allocator.name, rules, blockTokens, ...own });
}

/** `count` tokens that differ from each other, and from those that begin at another place. */
export const tokens = (count: number, first = 0): string =>
  String.fromCharCode(...Array.from({ length: count }, (_, i) => 0x4e00 + first + i));

/** A request that is served by itself: the tokens that it found, and those that its first step computed. */
export function ask(cache: LiveCache, prompt: string, asked: RequestOptions = {}): { found: number; computed: number } {
  const sequence = cache.arrive(prompt, asked);
  const plan = cache.plan();
  const served = { found: sequence.cachedTokens, computed: plan.items[0].tokens };
  cache.replica.commit(plan, { durationNs: 1 }, cache.now);
  cache.finish();
  return served;
}
