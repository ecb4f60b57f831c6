import { existsSync } from "node:fs";
import { InputError } from "../../core/errors.ts";
import type { EvictionPlugin, IndexPlugin } from "../../core/plugins/index.ts";
import { evictionWith } from "../../core/replica/compose.ts";
import { stopwatch } from "../../engine/clock.ts";
import type { Checker, CheckResult } from "../../laws/check-plugin.ts";
import { NondeterministicSources } from "../../laws/nondeterminism.ts";
import type { PluginSet } from "../../laws/plugin-set.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  Registry,
  schedulerRegistry,
} from "../../policies/registry.ts";
import { type Control, yieldToEvents } from "../control.ts";
import { evictionOptions } from "../run/eviction-options.ts";
import { createdKind } from "../user-plugins/created-kind.ts";
import { checkRules } from "../user-plugins/guarded-index.ts";
import { kindOf, kinds, type PluginKind, type Plugins, type ReaderPlugin } from "../user-plugins/kinds.ts";
import { isPluginFile, loadAnyPlugin } from "../user-plugins/plugin-file.ts";
import { runningCalls } from "../user-plugins/running-calls.ts";
import { messageOf } from "../user-plugins/user-code.ts";
import { type CheckDocument, checkDocument } from "./check-document.ts";

export interface CheckOptions extends Control {
  /** Number of cases of the longest trial; shorter trials run a fraction of them. 400 by default. */
  readonly runs?: number;
  /** A file in the format of a trace reader, which is checked with it. */
  readonly trace?: string | undefined;
  /** Random seed of the cases. */
  readonly seed?: number;
}

/** The results of checking one plug-in. */
export interface Checked extends CheckResult {
  /** The given file or name; the name of a plug-in that was passed as a value. */
  readonly file: string;
  readonly kind: PluginKind;
  readonly plugin: { readonly name: string };
  /** The file that a trace reader was checked with. */
  readonly trace: string | undefined;
  readonly runs: number;
  readonly seed: number;
  /** The document that `kvlab check --json` prints: schema check/1. */
  readonly report: CheckDocument;
}

/** A plug-in and its kind. */
type Found = { readonly [K in PluginKind]: { readonly kind: K; readonly plugin: Plugins[K] } }[PluginKind];

export const defaultRuns = 400;

let isChecking = false;

/**
 * Checks every law of its kind for a plug-in, and measures the cost of its operations. The plug-in is a file that exports it, the
 * name of a built-in eviction policy or index, or the plug-in itself. While it is checked, the process's clocks and random
 * sources are replaced by ones that record which of them the plug-in reads, so only one check may run at a time.
 *
 * @throws InputError if the plug-in cannot be loaded, or another check is running; Interrupted
 */
export async function checkPlugin(given: string | Plugins[PluginKind], options: CheckOptions = {}): Promise<Checked> {
  if (isChecking) throw new InputError("another plug-in is being checked; only one check can run at a time");
  isChecking = true;
  const sources = new NondeterministicSources();
  try {
    // The laws terminate calls that do not return, which a watch in another thread would prevent.
    return await runningCalls.unwatched(() => checked(given, options, sources));
  } finally {
    sources.restore();
    isChecking = false;
  }
}

async function checked(
  given: string | Plugins[PluginKind],
  { runs = defaultRuns, seed = 1, trace, progress, signal }: CheckOptions,
  sources: NondeterministicSources,
): Promise<Checked> {
  const file = typeof given === "string" ? given : given.name;
  progress?.({ doing: `loading ${file}`, done: 0 });
  const found = typeof given === "string" ? await pluginNamed(given, sources) : ofKind(given, kindOf(given));
  const advance = async (trial: string) => {
    progress?.({ doing: `trying: ${trial}`, done: 0 });
    await yieldToEvents(signal);
  };
  const checker = { runs, seed, sources, stopwatch: stopwatch(), describe: messageOf, advance };
  try {
    if (trace !== undefined && found.kind !== "reader")
      throw new InputError(`is ${kinds[found.kind].label}; --trace goes with a trace reader`);
    const parts = { ...(await checkedBy(found, checker, trace)), ...found, file, trace, runs, seed };
    return { ...parts, report: checkDocument(parts) };
  } catch (error) {
    throw error instanceof InputError ? new InputError(`${file}: ${error.message}`) : error;
  }
}

/** Checks the laws of the plug-in's kind. */
async function checkedBy({ kind, plugin }: Found, checker: Checker, trace: string | undefined): Promise<CheckResult> {
  // Loaded on demand, since no other command needs them.
  const { checkIndex, checkPolicy } = await import("../../laws/check-plugin.ts");
  const { checkPart, recorded } = await import("../../laws/check-part.ts");
  const { sources } = checker;
  switch (kind) {
    case "index":
      return await checkIndex(plugin, partsFor({ indexes: [plugin] }), checker);
    case "eviction":
      return await checkPolicy(plugin, partsFor({ evictions: [plugin] }), checker);
    case "allocator": {
      const { allocatorTrials } = await import("../../laws/allocating.ts");
      return await checkPart(allocatorTrials(recorded(plugin, sources)), checker);
    }
    case "scheduler": {
      const { schedulerTrials } = await import("../../laws/scheduling.ts");
      return await checkPart(schedulerTrials(recorded(plugin, sources), partsFor({})), checker);
    }
    case "router": {
      const { routerTrials } = await import("../../laws/routing.ts");
      return await checkPart(routerTrials(recorded(plugin, sources)), checker);
    }
    case "cost": {
      const { costTrials } = await import("../../laws/costing.ts");
      return await checkPart(costTrials(recorded(plugin, sources)), checker);
    }
    case "reader":
      return await checkedReader(plugin, trace, checker);
  }
}

async function checkedReader(reader: ReaderPlugin, trace: string | undefined, checker: Checker): Promise<CheckResult> {
  if (trace === undefined) throw new InputError("is a trace reader, which is checked with a file: --trace FILE");
  if (!existsSync(trace)) throw new InputError(`--trace ${trace}: no such file`);
  const { checkReader } = await import("../../laws/reading.ts");
  return await checkReader(reader, trace, checker);
}

/** The plug-in of a file, or a built-in one. Reads of clocks and random sources while the file is loaded are recorded in `sources`. */
async function pluginNamed(text: string, sources: NondeterministicSources): Promise<Found> {
  const withOptions = evictionOptions(text);
  if (withOptions) {
    const { kind, plugin } = await pluginNamed(withOptions.name, sources);
    if (kind !== "eviction")
      throw new InputError(`is ${kinds[kind].label}; options in the name are for eviction policies`);
    return { kind, plugin: evictionWith(plugin, withOptions.options) };
  }
  const builtIn = [
    ...evictionRegistry.all.map((plugin): Found => ({ kind: "eviction", plugin })),
    ...indexRegistry.all.map((plugin): Found => ({ kind: "index", plugin })),
  ];
  const named = builtIn.find(({ plugin }) => plugin.name === text);
  if (named) return named;
  if (!isPluginFile(text) && !existsSync(text))
    return { kind: "eviction", plugin: everyPlugin.get(text) as EvictionPlugin };
  try {
    const found = await loadAnyPlugin(text, () => {
      sources.reader = () => "while it is loaded";
    });
    sources.reader = () => undefined;
    if (found.kind === "index") checkRules(text, found.plugin as IndexPlugin);
    return ofKind(found.plugin, found.kind);
  } finally {
    sources.reader = () => undefined;
  }
}

/** Eviction policies, allocators, schedulers and routers have one shape; a trial call of `create` distinguishes them. */
const ofKind = (plugin: Plugins[PluginKind], kind: PluginKind): Found =>
  ({ kind: kind === "eviction" ? createdKind(plugin) : kind, plugin }) as Found;

const everyPlugin = new Registry<EvictionPlugin | IndexPlugin>(
  "policy",
  Object.fromEntries([...evictionRegistry.all, ...indexRegistry.all].map((plugin) => [plugin.name, plugin])),
);

/** All built-in parts of a cache, with the checked one instead of its kind. */
function partsFor(own: Partial<PluginSet>): PluginSet {
  return {
    indexes: indexRegistry.all,
    evictions: evictionRegistry.all,
    allocators: allocatorRegistry.all,
    schedulers: schedulerRegistry.all,
    ...own,
    reference: {
      index: indexRegistry.get("hash-table"),
      eviction: evictionRegistry.get("lru"),
      optimum: evictionRegistry.get("belady"),
      scheduler: schedulerRegistry.get("naive"),
    },
  };
}
