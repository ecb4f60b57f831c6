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
import { checkAllocator, createCache, evictionWith, rulesFor } from "../../core/replica/compose.ts";
import type { ReplayConfig } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { DeviceOptions, Preset } from "../../policies/preset.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  routerRegistry,
  schedulerRegistry,
} from "../../policies/registry.ts";
import { type Hardware, hardwareNamed, hardwareNameOf } from "../../sim/cost/hardware.ts";
import type { Plugins } from "../user-plugins/kinds.ts";
import { isPluginFile } from "../user-plugins/plugin-file.ts";
import { guardedValue, isUserPlugin, loadUserPlugin, notifying } from "../user-plugins/user-plugin.ts";
import { builtIn } from "./built-in.ts";
import { evictionOptions } from "./eviction-options.ts";
import type { RealEngine } from "./real-engine.ts";
import type { Simulated } from "./simulated.ts";
import type { Target } from "./target.ts";

export const defaultParts = { index: "hash-table", eviction: "lru", allocator: "block", scheduler: "naive" } as const;
/** The default scheduler of targets with a clock, where requests overlap. */
export const simulatedScheduler = "fcfs-chunked";

/** A configuration without capacity and block size, which depend on the trace. */
export interface Parts {
  /** The preset of all parts that were not chosen. */
  readonly preset?: Preset | undefined;
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly allocator: AllocatorPlugin;
  readonly scheduler: SchedulerPlugin;
  /** The preset's scheduler options if the scheduler is the preset's, otherwise none. */
  readonly schedulerOptions: Readonly<Record<string, number>>;
  /** Likewise, the preset's options by device. */
  readonly deviceOptions: readonly DeviceOptions[];
  /** Given rules, and the preset's; all others have the index's defaults. */
  readonly rules: Partial<Record<RuleName, RuleValue>>;
  /** Rules of the preset that are not in effect, because another plug-in or value was chosen. */
  readonly leftOut: readonly string[];
}

/** The configuration of a run, and the preset that it is based on. */
export interface RunConfig extends ReplayConfig {
  readonly preset?: Preset | undefined;
  /** Target sim: hardware, replicas and arrivals. */
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

/** Plug-ins by name or file, as on the command line. */
export type PartNames = { readonly [Kind in keyof PartChoice]: Extract<PartChoice[Kind], string | undefined> };

/** @throws InputError if a plug-in is unknown, or the index does not support a rule's value */
export async function partsNamed(choice: PartChoice, rules: Parts["rules"], target: Target = "cache"): Promise<Parts> {
  for (const kind of ["preset", ...Object.keys(defaultParts)] as (keyof PartChoice)[]) {
    const name = choice[kind];
    if (typeof name === "string" && name.includes(","))
      throw new InputError(`--${kind} is "${name}", expected one name; kvlab compare takes several`);
  }
  const preset = choice.preset === undefined ? undefined : presetOf(choice.preset);
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
  const supported = preset ? supportedRules(preset, index, allocator) : {};
  const all = { ...supported, ...rules };
  checkAllocator(allocator, rulesFor(index, all));
  return {
    preset,
    index,
    eviction,
    allocator,
    scheduler: [index, allocator].filter(isUserPlugin).reduce((all, { guard }) => notifying(all, guard), scheduler),
    schedulerOptions: scheduler.name === preset?.scheduler ? (preset.schedulerOptions ?? {}) : {},
    deviceOptions: scheduler.name === preset?.scheduler ? (preset.deviceOptions ?? []) : [],
    rules: all,
    leftOut: preset ? ruleTexts(presetRules(preset, index)).filter((text) => !ruleTexts(all).includes(text)) : [],
  };
}

/** A device as far as a preset's scheduler options depend on it. */
type Device = Pick<Hardware, "name" | "memoryBytes">;

/**
 * The simulated device, or that of an engine; undefined without either. A backend without memory of its own has that of the
 * simulator's device of its name, so that its decisions do not depend on the machine.
 */
export function deviceOf(simulated: Simulated | undefined, engine: RealEngine | undefined): Device | undefined {
  if (simulated !== undefined || engine === undefined) return simulated?.hardware;
  const { deviceName, memory } = engine.backend;
  if (memory.totalBytes === undefined) return hardwareNamed(deviceName());
  return { name: hardwareNameOf(deviceName()), memoryBytes: memory.totalBytes() };
}

/** The preset's scheduler options on a device; undefined: without the options that depend on the device. */
export function schedulerOptionsOn(
  { schedulerOptions, deviceOptions }: Pick<Parts, "schedulerOptions" | "deviceOptions">,
  device: Device | undefined,
): Readonly<Record<string, number>> {
  if (device === undefined) return schedulerOptions;
  const { name, memoryBytes } = device;
  const applies = ({ memoryGiB, except = [] }: DeviceOptions) =>
    memoryBytes >= memoryGiB * 2 ** 30 && !except.some((beginning) => name.startsWith(beginning));
  return { ...deviceOptions.findLast(applies)?.schedulerOptions, ...schedulerOptions };
}

const ruleTexts = (rules: Parts["rules"]): string[] => Object.entries(rules).map(([name, value]) => `${name}=${value}`);

/** Without a clock requests do not overlap, so a scheduler has no effect except by splitting prompts into chunks. */
function schedulerFor({ preset, scheduler }: ChosenParts, target: Target): SchedulerPlugin {
  if (scheduler !== undefined) return scheduler;
  if (target === "cache") return schedulerRegistry.get(defaultParts.scheduler);
  return schedulerRegistry.get(preset?.scheduler ?? simulatedScheduler);
}

/** The rules of a preset. For another index than the preset's, they include the defaults of the preset's index. */
const presetRules = (preset: Preset, index: IndexPlugin): Parts["rules"] =>
  index === preset.index ? preset.rules : { ...preset.index.defaults, ...preset.rules };

/** The rules of a preset that the index and the allocator support. */
function supportedRules(preset: Preset, index: IndexPlugin, allocator: AllocatorPlugin): Parts["rules"] {
  const isSupported = ([name, value]: [string, RuleValue]) => {
    try {
      checkAllocator(allocator, rulesFor(index, { [name]: value }));
      return true;
    } catch {
      return false;
    }
  };
  return Object.fromEntries(Object.entries(presetRules(preset, index)).filter(isSupported));
}

const registries = {
  index: indexRegistry,
  eviction: evictionRegistry,
  allocator: allocatorRegistry,
  scheduler: schedulerRegistry,
  router: routerRegistry,
};

/** A plug-in by its name, from its file, or as a value. @throws InputError if there is none */
export async function pluginNamed<K extends keyof typeof registries>(
  kind: K,
  choice: string | Plugins[K],
): Promise<Plugins[K]> {
  if (typeof choice !== "string") return guardedValue(kind, choice);
  if (isPluginFile(choice)) return await loadUserPlugin(kind, choice);
  return builtIn<Plugin>(registries[kind], kind, choice) as Plugins[K];
}

/** A preset by its name, or a user's with guarded plug-ins. @throws InputError if there is none */
export function presetOf(choice: string | Preset): Preset {
  if (typeof choice === "string") return presetRegistry.get(choice);
  if (presetRegistry.all.includes(choice)) return choice;
  const { index, eviction, allocator } = choice;
  return {
    ...choice,
    index: guardedValue("index", index),
    eviction: guardedValue("eviction", eviction),
    allocator: guardedValue("allocator", allocator),
  };
}

export const indexOf = (choice: string | IndexPlugin): Promise<IndexPlugin> => pluginNamed("index", choice);

/** As `pluginNamed`, with options: `ttl:ttl-s=60`. A user's policy that reads the future is marked as offline. */
export async function evictionOf(choice: string | EvictionPlugin): Promise<EvictionPlugin> {
  const withOptions = typeof choice === "string" ? evictionOptions(choice) : undefined;
  if (withOptions) return evictionWith(await evictionOf(withOptions.name), withOptions.options);
  const eviction = await pluginNamed("eviction", choice);
  return evictionRegistry.all.includes(eviction) ? eviction : withOffline(eviction);
}

/** Marks a policy that reads the future as offline. */
const withOffline = (eviction: EvictionPlugin): EvictionPlugin =>
  eviction.offline !== true && readsFuture(eviction) ? { ...eviction, offline: true } : eviction;

/** True if a policy reads the future, found by creating an instance. */
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

/** The default block size: the preset's if it is a multiple of the trace's unit; otherwise the unit, or 16 for token ids. */
export function defaultBlockTokens(unitTokens: number, preset?: Preset): number {
  if (preset !== undefined && preset.blockTokens % unitTokens === 0) return preset.blockTokens;
  return unitTokens === 1 ? 16 : unitTokens;
}

/** Least number of bytes for the columns of a block. */
const bytesPerBlock = 16;

/** @throws InputError if the columns of this number of blocks exceed half of the machine's memory. */
export function checkMemory(blocks: number | undefined): void {
  const bytes = (blocks ?? 0) * bytesPerBlock;
  if (bytes <= totalmem() / 2 && (blocks ?? 0) < 2 ** 31) return;
  throw new InputError(
    `--blocks is ${blocks}, which would take ${Math.round(bytes / 2 ** 30)} GiB of memory or more; ` +
      "unlimited uses only the memory that the trace needs",
  );
}

/** @throws InputError if the size is not a multiple of the trace's unit. */
export function blockTokensFor(
  { unitTokens }: Pick<Trace, "unitTokens">,
  blockSize: number | undefined,
  preset?: Preset,
): number {
  const size = blockSize ?? defaultBlockTokens(unitTokens, preset);
  if (size % unitTokens === 0) return size;
  throw new InputError(
    `--block-size is ${size}, expected a multiple of ${unitTokens}, the tokens of the trace's blocks`,
  );
}
