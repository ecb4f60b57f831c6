import { InputError } from "../../core/errors.ts";
import type { Plugin } from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import type { CacheConfig, SchedulerConfig } from "../../core/replica/compose.ts";
import type { PluginSet } from "../../laws/plugin-set.ts";
import type { Preset } from "../../policies/preset.ts";

export type RuleChoices = Readonly<Partial<Record<RuleName, RuleValue>>>;

/** The configuration that serves a trace, as saved with a counterexample. */
export interface Setup {
  readonly index: string;
  readonly eviction: string;
  readonly allocator: string;
  readonly scheduler: string;
  /** Only options that are not defaults. */
  readonly schedulerOptions: Readonly<Record<string, number>>;
  readonly rules: RuleChoices;
  readonly blockTokens: number;
  readonly blocks: number;
  readonly hostBlocks: number;
  readonly seed: number;
  readonly loop: "open" | "closed";
  /** Seed of the step times; 0: a millisecond each. */
  readonly clock: number;
  /** `free`: one in four tokens of the vocabulary ends an output. */
  readonly answers: "trace" | "free";
}

/** The plug-ins and presets of setups. */
export type FuzzParts = Pick<PluginSet, "indexes" | "evictions" | "allocators" | "schedulers"> & {
  readonly presets: readonly Preset[];
};

/** @throws InputError if a plug-in is unknown */
export function configOf(setup: Setup, parts: FuzzParts): CacheConfig & SchedulerConfig {
  const { rules, blockTokens, blocks, seed, schedulerOptions } = setup;
  return {
    index: named(parts.indexes, setup.index),
    eviction: named(parts.evictions, setup.eviction),
    allocator: named(parts.allocators, setup.allocator),
    scheduler: named(parts.schedulers, setup.scheduler),
    schedulerOptions,
    rules,
    blockTokens,
    blocks,
    seed,
  };
}

/** The setup as options of a command. */
export function policyOptions(
  { index, eviction, allocator, scheduler, ...setup }: Setup,
  operationsFile: string | undefined,
): string {
  return [
    `--index ${index} --eviction ${eviction} --allocator ${allocator} --scheduler ${scheduler}`,
    ...Object.entries(setup.schedulerOptions).map(([name, value]) => `--scheduler-option ${name}=${value}`),
    ...Object.entries(setup.rules).map(([name, value]) => `--rule ${name}=${value}`),
    `--block-size ${setup.blockTokens} --blocks ${setup.blocks} --seed ${setup.seed}`,
    ...(operationsFile === undefined ? [] : [`--operations ${operationsFile}`]),
  ].join(" ");
}

/** @throws InputError if there is no plug-in of that name */
export function named<P extends Plugin>(plugins: readonly P[], name: string): P {
  const found = plugins.find((plugin) => plugin.name === name);
  if (found) return found;
  throw new InputError(`unknown plug-in "${name}", expected one of ${plugins.map((plugin) => plugin.name).join(", ")}`);
}

/** Largest cache in tokens: enough for all of a case. With blocks larger than any request, at least 4 blocks. */
export const mostCapacity = 96;
export const mostBlocks = (blockTokens: number): number => Math.max(4, Math.ceil(mostCapacity / blockTokens));
