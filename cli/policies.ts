import type { Command } from "commander";
import { resolveRules, ruleNames } from "../core/plugins/rules.ts";
import { type ListedRule, listedKinds, listPlugins, type PluginList } from "../lab/plugin-list.ts";
import { print } from "./output/print.ts";
import { aligned, colors, wrapped } from "./output/table.ts";

export function addPolicies(program: Command): void {
  program
    .command("policies")
    .description("list presets, plug-ins, reuse rules, models and GPUs")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", "\nExamples:\n  kvlab policies\n  kvlab policies --json")
    .action(({ json }: { json?: boolean }) => {
      const list = listPlugins();
      print(`${json ? JSON.stringify(list, undefined, 2) : text(list)}\n`);
    });
}

const nameWidth = 22;
const indent = nameWidth + 4;

function text(list: PluginList): string {
  const sections = listedKinds.map((kind) => {
    const lines = list.plugins
      .filter((plugin) => plugin.kind === kind)
      .map(({ name, about, source, options = {} }) => {
        const numbers = Object.entries(options).map(([option, { default: initial }]) => `${option}=${initial}`);
        const texts = [about, colors.dim(`[${source}]`), ...numbers.map((text) => colors.cyan(text))];
        return entry(name, texts.join(" "));
      });
    return [`${colors.bold(kind)} (--${kind})`, ...lines].join("\n");
  });
  return [presets(list), ...sections, rules(list), machines(list)].join("\n\n");
}

/** One table: a line of parts for each preset, and below it the rules that differ from the general defaults. */
function presets({ presets }: PluginList): string {
  const header = ["preset", "index", "eviction", "allocator", "scheduler", "block"];
  const rows = presets.map(({ name, index, eviction, allocator, scheduler, blockTokens }) => [
    ...[name, index, eviction, allocator, scheduler],
    String(blockTokens),
  ]);
  const [head, ...lines] = aligned([header, ...rows], "lllllr").split("\n");
  const defaults = resolveRules();
  const table = presets.flatMap(({ rules }, i) => {
    const differing = ruleNames
      .filter((name) => rules[name] !== defaults[name])
      .map((name) => `${name}=${rules[name]}`);
    const ruleLines = differing.length === 0 ? [] : [`    ${colors.dim(wrapped(differing.join(" "), 4, 4))}`];
    return [lines[i], ...ruleLines];
  });
  const note =
    "Presets of real systems; kvlab replay --preset vllm --eviction lfu replaces one part. " +
    "Block sizes are in tokens. Schedulers have an effect if requests overlap: --target sim.";
  return [
    `${colors.bold("preset")} (--preset)`,
    head,
    ...table,
    colors.dim(wrapped(note, 2, 2).replace(/^/, "  ")),
  ].join("\n");
}

/** Models and GPUs of the simulator. */
function machines({ models, gpus }: PluginList): string {
  const list = (title: string, option: string, names: readonly string[]) =>
    `${colors.bold(title)} (${option})\n  ${wrapped(names.join(", "), 2, 2)}`;
  return [list("models", "--model", models), list("hardware", "--gpu", gpus)].join("\n\n");
}

const entry = (name: string, text: string) => `  ${name.padEnd(nameWidth)}  ${wrapped(text, indent, indent)}`;

const marked = (value: string, isSupported: boolean) => (isSupported ? value : colors.dim(`[${value}]`));

function rules({ rules }: PluginList): string {
  const lines = rules.map((rule) => {
    const { name, about } = rule;
    return `  ${colors.cyan(name)} = ${valuesText(rule)}\n      ${wrapped(about, 6, 6)}`;
  });
  const title = `${colors.bold("rules")} (--rule NAME=VALUE; the first value is the default unless an index has another; values in brackets are not supported by any index of this version)`;
  return [wrapped(title, 0), ...lines].join("\n");
}

/** The values of a rule, the default in bold. */
function valuesText({ values, default: initial, later }: ListedRule): string {
  if (typeof values === "string") return `${colors.bold(String(initial))} | ${marked("N", later === false)}`;
  const isSupported = (value: string) => Array.isArray(later) && !later.includes(value);
  const [first, ...others] = values;
  return [colors.bold(first), ...others.map((value) => marked(value, isSupported(value)))].join(" | ");
}
