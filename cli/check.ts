import { existsSync } from "node:fs";
import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import type { EvictionPlugin, IndexPlugin } from "../core/plugins/index.ts";
import { breathe } from "../lab/control.ts";
import { messageOf } from "../lab/user-plugins/user-code.ts";
import { checkRules } from "../lab/user-plugins/user-index.ts";
import { isIndex, isPolicyFile, loadUserPlugin } from "../lab/user-plugins/user-policy.ts";
import type { CheckResult, Finding } from "../laws/check-plugin.ts";
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
    .description("run every law against an eviction policy or index of your own, and see what its operations cost")
    .argument("<POLICY>", "a file that exports it, or the name of a built-in one")
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
  const { checkIndex: examineIndex, checkPolicy: examinePolicy } = await import("../laws/check-plugin.ts");
  const progress = new Progress();
  progress.state(`loading ${file}`);
  const sources = new NondeterministicSources();
  const plugin = await pluginNamed(file, sources);
  const advance = async (what: string) => {
    progress.state(`trying: ${what}`);
    await breathe(interruption);
  };
  const examiner = { runs, seed, sources, stopwatch: () => performance.now(), describe: messageOf, advance };
  const parts = partsFor(plugin);
  let found: CheckResult;
  try {
    found = isIndex(plugin)
      ? await examineIndex(plugin, parts, examiner)
      : await examinePolicy(plugin, parts, examiner);
  } catch (error) {
    throw error instanceof InputError ? new InputError(`${file}: ${error.message}`) : error;
  } finally {
    progress.done();
  }
  const checked = { ...found, file, plugin, runs, seed };
  print(json ? `${JSON.stringify(checkDocument(checked), undefined, 2)}\n` : checkText(checked));
  if (found.findings.some(({ result }: Finding) => result === "broken")) process.exitCode = 1;
}

/** A user's file, or one of ours. What the file reads while it is loaded is written down. */
async function pluginNamed(text: string, sources: NondeterministicSources): Promise<EvictionPlugin | IndexPlugin> {
  const isBuiltIn = everyPlugin.all.some(({ name }) => name === text);
  if (isBuiltIn || (!isPolicyFile(text) && !existsSync(text))) return everyPlugin.get(text);
  try {
    const plugin = await loadUserPlugin(text, () => {
      sources.reader = () => "while it is loaded";
    });
    if (isIndex(plugin)) checkRules(text, plugin);
    return plugin;
  } finally {
    sources.reader = () => undefined;
  }
}

const everyPlugin = new Registry<EvictionPlugin | IndexPlugin>(
  "policy",
  Object.fromEntries([...evictionRegistry.all, ...indexRegistry.all].map((plugin) => [plugin.name, plugin])),
);

/** All that a cache can be made of, with this part in its place. */
function partsFor(plugin: EvictionPlugin | IndexPlugin): PluginSet {
  return {
    indexes: isIndex(plugin) ? [plugin] : indexRegistry.all,
    evictions: isIndex(plugin) ? evictionRegistry.all : [plugin],
    allocators: allocatorRegistry.all,
    schedulers: schedulerRegistry.all,
    reference: {
      index: indexRegistry.get("hash-table"),
      eviction: evictionRegistry.get("lru"),
      optimum: evictionRegistry.get("belady"),
      scheduler: schedulerRegistry.get("naive"),
    },
  };
}
