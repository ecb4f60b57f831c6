import { existsSync } from "node:fs";
import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import type { EvictionPlugin, IndexPlugin } from "../core/plugins/index.ts";
import { breathe } from "../lab/control.ts";
import { createdKind } from "../lab/user-plugins/created-kind.ts";
import { checkRules } from "../lab/user-plugins/guarded-index.ts";
import type { PluginKind, Plugins } from "../lab/user-plugins/kinds.ts";
import { isPluginFile, loadAnyPlugin } from "../lab/user-plugins/plugin-file.ts";
import { messageOf } from "../lab/user-plugins/user-code.ts";
import type { Checker, CheckResult, Finding } from "../laws/check-plugin.ts";
import { NondeterministicSources } from "../laws/nondeterminism.ts";
import type { PluginSet } from "../laws/plugin-set.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  Registry,
  schedulerRegistry,
} from "../policies/registry.ts";
import { checkDocument, checkText } from "./check/check-report.ts";
import { wholeNumber } from "./input/options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";

interface CheckOptions {
  readonly runs: number;
  readonly seed: number;
  readonly json?: boolean;
}

const defaultRuns = 400;

export function addCheck(program: Command): void {
  program
    .command("check")
    .description("run every law against a plug-in of your own, and measure what its operations cost")
    .argument("<PLUG-IN>", "a file that exports it, or the name of a built-in policy or index")
    .option("--runs <N>", "cases of the longest trial", wholeNumber("--runs", 1), defaultRuns)
    .option("--seed <N>", "seed of the cases", wholeNumber("--seed", 0, 2 ** 31 - 1), 1)
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(check);
}

const examples = `
Exit code: 0 all laws hold, 1 a law is broken, 2 the file cannot be loaded.

Examples:
  kvlab init policy mine && kvlab check ./mine.ts
  kvlab check ./mine.ts --runs 2000 --seed 7
  kvlab check lru`;

async function check(file: string, { runs, seed, json }: CheckOptions): Promise<void> {
  // Loaded only now, for no other command needs it.
  const progress = new Progress();
  progress.state(`loading ${file}`);
  const sources = new NondeterministicSources();
  const found = await pluginNamed(file, sources);
  const advance = async (what: string) => {
    progress.state(`trying: ${what}`);
    await breathe(interruption);
  };
  const checker = { runs, seed, sources, stopwatch: () => performance.now(), describe: messageOf, advance };
  let examination: CheckResult;
  try {
    examination = await checkedBy(found, checker);
  } catch (error) {
    throw error instanceof InputError ? new InputError(`${file}: ${error.message}`) : error;
  } finally {
    progress.done();
  }
  const checked = { ...examination, file, ...found, runs, seed };
  print(json ? `${JSON.stringify(checkDocument(checked), undefined, 2)}\n` : checkText(checked));
  if (examination.findings.some(({ result }: Finding) => result === "broken")) process.exitCode = 1;
}

/** A plug-in and its kind. */
export type Found = { readonly [K in PluginKind]: { readonly kind: K; readonly plugin: Plugins[K] } }[PluginKind];

/** Runs the laws of its kind. */
async function checkedBy({ kind, plugin }: Found, checker: Checker): Promise<CheckResult> {
  // Loaded on demand, since no other command needs them.
  const { checkIndex, checkPolicy } = await import("../laws/check-plugin.ts");
  const { checkPart, recorded } = await import("../laws/check-part.ts");
  const { sources } = checker;
  switch (kind) {
    case "index":
      return await checkIndex(plugin, partsFor({ indexes: [plugin] }), checker);
    case "eviction":
      return await checkPolicy(plugin, partsFor({ evictions: [plugin] }), checker);
    case "allocator": {
      const { allocatorTrials } = await import("../laws/allocating.ts");
      return await checkPart(allocatorTrials(recorded(plugin, sources)), checker);
    }
    case "scheduler": {
      const { schedulerTrials } = await import("../laws/scheduling.ts");
      return await checkPart(schedulerTrials(recorded(plugin, sources), partsFor({})), checker);
    }
    case "router": {
      const { routerTrials } = await import("../laws/routing.ts");
      return await checkPart(routerTrials(recorded(plugin, sources)), checker);
    }
    case "cost": {
      const { costTrials } = await import("../laws/costing.ts");
      return await checkPart(costTrials(recorded(plugin, sources)), checker);
    }
    case "reader":
      throw new InputError(
        "is a trace reader, whose only check is to read a trace: kvlab trace stats TRACE --format FILE",
      );
  }
}

/** The plug-in of a file, or a built-in one. Reads of clocks and chance while the file is loaded are recorded in `sources`. */
async function pluginNamed(text: string, sources: NondeterministicSources): Promise<Found> {
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
    const kind = found.kind === "eviction" ? createdKind(found.plugin) : found.kind;
    return { kind, plugin: found.plugin } as Found;
  } finally {
    sources.reader = () => undefined;
  }
}

const everyPlugin = new Registry<EvictionPlugin | IndexPlugin>(
  "policy",
  Object.fromEntries([...evictionRegistry.all, ...indexRegistry.all].map((plugin) => [plugin.name, plugin])),
);

/** All built-in parts of a cache, with the examined one instead of its kind. */
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
