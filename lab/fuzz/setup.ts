import { InputError } from "../../core/errors.ts";
import type { Plugin } from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import type { CacheConfig, SchedulerConfig } from "../../core/replica/compose.ts";
import type { PluginSet } from "../../laws/plugin-set.ts";
import type { Preset } from "../../policies/preset.ts";

export type OwnRules = Readonly<Partial<Record<RuleName, RuleValue>>>;

/** How a trace is served, as data: what a file of a counterexample has. */
export interface Setup {
  readonly index: string;
  readonly eviction: string;
  readonly allocator: string;
  readonly scheduler: string;
  /** Those that are not the defaults. */
  readonly schedulerOptions: Readonly<Record<string, number>>;
  readonly rules: OwnRules;
  readonly blockTokens: number;
  readonly blocks: number;
  readonly hostBlocks: number;
  readonly seed: number;
  readonly loop: "open" | "closed";
  /** Seed of how long steps take; 0: each takes a millisecond. */
  readonly clock: number;
  /** `free`: one in four tokens of the model ends an answer. */
  readonly answers: "trace" | "free";
}

/** What setups are put together from. */
export type FuzzParts = Pick<PluginSet, "indexes" | "evictions" | "allocators" | "schedulers"> & {
  readonly presets: readonly Preset[];
};

/** @throws InputError if there is no part of such a name */
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

/** The options of the commands that serve a trace so. */
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

/** @throws InputError if there is none */
export function named<P extends Plugin>(plugins: readonly P[], name: string): P {
  const found = plugins.find((plugin) => plugin.name === name);
  if (found) return found;
  throw new InputError(`unknown part "${name}", expected one of ${plugins.map((plugin) => plugin.name).join(", ")}`);
}

/** Tokens that a cache holds: hardly any, or all of a case; of blocks larger than any request, some. */
export const mostCapacity = 96;
export const mostBlocks = (blockTokens: number): number => Math.max(4, Math.ceil(mostCapacity / blockTokens));
