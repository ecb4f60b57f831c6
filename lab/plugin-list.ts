import type { Plugin, PluginOption } from "../core/plugins/index.ts";
import { type RuleName, type Rules, type RuleValue, ruleNames, ruleTable } from "../core/plugins/rules.ts";
import { rulesFor } from "../core/replica/compose.ts";
import type { Preset } from "../policies/preset.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  routerRegistry,
  schedulerRegistry,
} from "../policies/registry.ts";
import { hardwareNames } from "../sim/cost/hardware.ts";
import { modelNames } from "../sim/cost/models.ts";

type PluginOptions = Readonly<Record<string, PluginOption>>;

/** A built-in plug-in. */
export interface ListedPlugin extends Pick<Plugin, "name" | "about" | "source"> {
  readonly kind: "index" | "eviction" | "allocator" | "scheduler" | "router";
  /** Its numeric options with their defaults, if it has any. */
  readonly options?: PluginOptions;
}

/** A preset with every rule in effect. */
export interface ListedPreset {
  readonly name: string;
  readonly about: string;
  readonly source: string;
  readonly link: string;
  readonly index: string;
  readonly eviction: string;
  readonly allocator: string;
  readonly scheduler: string;
  readonly blockTokens: number;
  readonly rules: Rules;
}

/** A reuse rule with its values. */
export interface ListedRule {
  readonly name: RuleName;
  /** Its values, or "number", or "limit": a number or "unlimited". */
  readonly values: readonly string[] | "number" | "limit";
  /** The value unless an index has another default. */
  readonly default: string | number;
  /** Values that no index of this version supports; for a number, true if no index supports one. */
  readonly later: boolean | readonly string[];
  readonly about: string;
}

/** Schema policies/1. */
export interface PluginList {
  readonly schema: "policies/1";
  readonly plugins: readonly ListedPlugin[];
  readonly presets: readonly ListedPreset[];
  readonly rules: readonly ListedRule[];
  /** Names of the simulator's models and GPUs. */
  readonly models: readonly string[];
  readonly gpus: readonly string[];
}

const registries = {
  index: indexRegistry,
  eviction: evictionRegistry,
  allocator: allocatorRegistry,
  scheduler: schedulerRegistry,
  router: routerRegistry,
};

/** The kinds of plug-ins that are listed, in this order; each is also the name of its option. */
export const listedKinds = Object.keys(registries) as ListedPlugin["kind"][];

/** All built-in plug-ins, presets, reuse rules, models and GPUs: the document that `kvlab policies --json` prints. */
export function listPlugins(): PluginList {
  const plugins = listedKinds.flatMap((kind) =>
    (registries[kind].all as readonly (Plugin & { readonly options?: PluginOptions })[]).map(
      ({ name, about, source, options }) => ({ kind, name, about, source, ...(options && { options }) }),
    ),
  );
  return {
    schema: "policies/1",
    plugins,
    presets: presetRegistry.all.map(listedPreset),
    rules: ruleNames.map(listedRule),
    models: modelNames,
    gpus: hardwareNames,
  };
}

function listedPreset(preset: Preset): ListedPreset {
  const { name, about, source, link, index, eviction, allocator, scheduler, blockTokens } = preset;
  const parts = { index: index.name, eviction: eviction.name, allocator: allocator.name, scheduler, blockTokens };
  return { name, about, source, link, ...parts, rules: rulesFor(index, preset.rules) };
}

function listedRule(name: RuleName): ListedRule {
  const rule: { values: ListedRule["values"]; initial?: string | number } = ruleTable[name];
  const initial = rule.values === "limit" ? "unlimited" : rule.initial;
  const { values } = rule;
  const ruleDefault = initial ?? values[0];
  const isSupported = (value: RuleValue) =>
    "everyIndex" in ruleTable[name] ||
    indexRegistry.all.some(({ supports }) => {
      const supported = supports[name] ?? [ruleDefault];
      return supported === "any" || supported.includes(value);
    });
  const later = typeof values === "string" ? !isSupported(1) : values.filter((value) => !isSupported(value));
  return { name, values, default: ruleDefault, later, about: ruleTable[name].about };
}
