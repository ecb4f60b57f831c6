import { totalmem } from "node:os";
import { InputError } from "../../core/errors.ts";
import type {
  AllocatorPlugin,
  EvictionPlugin,
  IndexPlugin,
  Plugin,
  SchedulerPlugin,
} from "../../core/plugins/index.ts";
import type { RuleName, Rules, RuleValue } from "../../core/plugins/rules.ts";
import { checkAllocator, createCache, rulesFor } from "../../core/replica/compose.ts";
import type { ReplayConfig } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { Preset } from "../../policies/preset.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  routerRegistry,
  schedulerRegistry,
} from "../../policies/registry.ts";
import type { Plugins } from "../user-plugins/kinds.ts";
import { isPluginFile } from "../user-plugins/plugin-file.ts";
import { isFromFile, loadUserPlugin, notifying } from "../user-plugins/user-plugin.ts";
import { builtIn } from "./built-in.ts";
import type { RealEngine } from "./real-engine.ts";
import type { Simulated } from "./simulated.ts";
import type { Target } from "./target.ts";

export const defaultParts = { index: "hash-table", eviction: "lru", allocator: "block", scheduler: "naive" } as const;
/** Who has a clock has requests that overlap. */
export const simulatedScheduler = "fcfs-chunked";

/** Everything chosen but the capacity and the block size, which depend on the trace. */
export interface Parts {
  /** Where all that was not chosen comes from. */
  readonly preset?: Preset | undefined;
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly allocator: AllocatorPlugin;
  readonly scheduler: SchedulerPlugin;
  /** The preset's, if it is its scheduler. */
  readonly schedulerOptions: Readonly<Record<string, number>>;
  /** As given, or the preset's; the others are the index's defaults. */
  readonly rules: Partial<Record<RuleName, RuleValue>>;
  /** Rules of the preset that do not hold, because of a part or a rule that was chosen. */
  readonly leftOut: readonly string[];
}

/** What is run: a replay's configuration, and the preset that it began with. */
export interface RunConfig extends ReplayConfig {
  readonly preset?: Preset | undefined;
  /** Target sim: on what, how many, and how requests come. */
  readonly simulated?: Simulated | undefined;
  /** Target is an engine backend: model, threads, arrivals. */
  readonly engine?: RealEngine | undefined;
}

/** Plug-ins of a configuration: names, files, or the plug-ins themselves. An omitted one is that of the preset, or the default. */
export interface PartChoice {
  readonly preset?: string | Preset | undefined;
  readonly index?: string | IndexPlugin | undefined;
  readonly eviction?: string | EvictionPlugin | undefined;
  readonly allocator?: string | AllocatorPlugin | undefined;
  readonly scheduler?: string | SchedulerPlugin | undefined;
}

/** Names and files, as the command line has them. */
export type PartNames = { readonly [Kind in keyof PartChoice]: Extract<PartChoice[Kind], string | undefined> };

/** @throws InputError if a plug-in is unknown, or the index does not support a rule's value */
export async function partsNamed(choice: PartChoice, rules: Parts["rules"], target: Target = "cache"): Promise<Parts> {
  for (const kind of ["preset", ...Object.keys(defaultParts)] as (keyof PartChoice)[]) {
    const name = choice[kind];
    if (typeof name === "string" && name.includes(","))
      throw new InputError(`--${kind} is "${name}", expected one name; kvlab compare takes several`);
  }
  const preset = typeof choice.preset === "string" ? presetRegistry.get(choice.preset) : choice.preset;
  const index = choice.index === undefined ? preset?.index : await indexOf(choice.index);
  const eviction = choice.eviction === undefined ? preset?.eviction : await evictionOf(choice.eviction);
  const allocator = choice.allocator === undefined ? undefined : await pluginNamed("allocator", choice.allocator);
  const scheduler = choice.scheduler === undefined ? undefined : await pluginNamed("scheduler", choice.scheduler);
  return partsOf({ preset, index, eviction, allocator, scheduler }, rules, target);
}

interface ChosenParts {
  readonly preset?: Preset | undefined;
  readonly allocator?: AllocatorPlugin | undefined;
  readonly scheduler?: SchedulerPlugin | undefined;
  readonly index?: IndexPlugin | undefined;
  readonly eviction?: EvictionPlugin | undefined;
}

/** @throws InputError as `partsNamed` does. */
export function partsOf(chosen: ChosenParts, rules: Parts["rules"], target: Target = "cache"): Parts {
  const { preset } = chosen;
  const index = chosen.index ?? indexRegistry.get(defaultParts.index);
  const eviction = chosen.eviction ?? evictionRegistry.get(defaultParts.eviction);
  const allocator = chosen.allocator ?? preset?.allocator ?? allocatorRegistry.get(defaultParts.allocator);
  const scheduler = schedulerFor(chosen, target);
  const kept = preset ? possibleRules(preset, index, allocator) : {};
  const all = { ...kept, ...rules };
  checkAllocator(allocator, rulesFor(index, all));
  return {
    preset,
    index,
    eviction,
    allocator,
    scheduler: [index, allocator].filter(isFromFile).reduce((all, { guard }) => notifying(all, guard), scheduler),
    schedulerOptions: scheduler.name === preset?.scheduler ? (preset.schedulerOptions ?? {}) : {},
    rules: all,
    leftOut: preset ? ruleTexts(presetRules(preset, index)).filter((text) => !ruleTexts(all).includes(text)) : [],
  };
}

const ruleTexts = (rules: Parts["rules"]): string[] => Object.entries(rules).map(([name, value]) => `${name}=${value}`);

/** Without a clock requests do not overlap, and no scheduler makes a difference but by cutting prompts in chunks. */
function schedulerFor({ preset, scheduler }: ChosenParts, target: Target): SchedulerPlugin {
  if (scheduler !== undefined) return scheduler;
  if (target === "cache") return schedulerRegistry.get(defaultParts.scheduler);
  return schedulerRegistry.get(preset?.scheduler ?? simulatedScheduler);
}

/** A preset's rules; with another index than its own also those that its own one has by default. */
const presetRules = (preset: Preset, index: IndexPlugin): Parts["rules"] =>
  index === preset.index ? preset.rules : { ...preset.index.defaults, ...preset.rules };

/** Those of a preset's rules that another index or allocator than its own can follow. */
function possibleRules(preset: Preset, index: IndexPlugin, allocator: AllocatorPlugin): Parts["rules"] {
  const isPossible = ([name, value]: [string, RuleValue]) => {
    try {
      checkAllocator(allocator, rulesFor(index, { [name]: value }));
      return true;
    } catch {
      return false;
    }
  };
  return Object.fromEntries(Object.entries(presetRules(preset, index)).filter(isPossible));
}

const registries = {
  index: indexRegistry,
  eviction: evictionRegistry,
  allocator: allocatorRegistry,
  scheduler: schedulerRegistry,
  router: routerRegistry,
};

/** A plug-in by its name or from its file, or the plug-in itself. @throws InputError if there is none */
export async function pluginNamed<K extends keyof typeof registries>(
  kind: K,
  choice: string | Plugins[K],
): Promise<Plugins[K]> {
  if (typeof choice !== "string") return choice;
  if (isPluginFile(choice)) return await loadUserPlugin(kind, choice);
  return builtIn<Plugin>(registries[kind], kind, choice) as Plugins[K];
}

export const indexOf = (choice: string | IndexPlugin): Promise<IndexPlugin> => pluginNamed("index", choice);

/** As `pluginNamed`; a policy of a file or a value that reads the future is offline. */
export async function evictionOf(choice: string | EvictionPlugin): Promise<EvictionPlugin> {
  const eviction = await pluginNamed("eviction", choice);
  return evictionRegistry.all.includes(eviction) ? eviction : withOffline(eviction);
}

/** A policy that reads the future is offline although it does not declare it. */
const withOffline = (eviction: EvictionPlugin): EvictionPlugin =>
  eviction.offline !== true && readsFuture(eviction) ? { ...eviction, offline: true } : eviction;

/** Whether a policy is offline although it may not say so: found by making one. */
function readsFuture(eviction: EvictionPlugin): boolean {
  let found = false;
  const probe: EvictionPlugin = {
    ...eviction,
    create(context) {
      found = eviction.create(context).prepare !== undefined;
      return { add() {}, remove() {}, victim: () => undefined };
    },
  };
  const index = indexRegistry.get(defaultParts.index);
  const allocator = allocatorRegistry.get(defaultParts.allocator);
  createCache({ index, allocator, eviction: probe, blockTokens: 1, blocks: 1, rules: {}, seed: 1 });
  return found;
}

/** All rules in effect. */
export const effectiveRules = (config: Pick<ReplayConfig, "index" | "rules">): Rules =>
  rulesFor(config.index, config.rules);

/** Block size without `--block-size`: the preset's where the trace can have it, its unit, or 16 where a key is a token. */
export function defaultBlockTokens(unitTokens: number, preset?: Preset): number {
  if (preset !== undefined && preset.blockTokens % unitTokens === 0) return preset.blockTokens;
  return unitTokens === 1 ? 16 : unitTokens;
}

/** What the columns of a block take at the least. */
const bytesPerBlock = 16;

/** @throws InputError if a cache of so many blocks would fill the memory of this machine. */
export function checkMemory(blocks: number | undefined): void {
  const bytes = (blocks ?? 0) * bytesPerBlock;
  if (bytes <= totalmem() / 2 && (blocks ?? 0) < 2 ** 31) return;
  throw new InputError(
    `--blocks is ${blocks}, which would take ${Math.round(bytes / 2 ** 30)} GiB of memory or more; ` +
      "unlimited takes what the trace needs",
  );
}

/** @throws InputError if the size is not a multiple of the trace's unit. */
export function blockTokensFor({ unitTokens }: Trace, blockSize: number | undefined, preset?: Preset): number {
  const size = blockSize ?? defaultBlockTokens(unitTokens, preset);
  if (size % unitTokens === 0) return size;
  throw new InputError(
    `--block-size is ${size}, expected a multiple of ${unitTokens}, the tokens of the trace's blocks`,
  );
}
