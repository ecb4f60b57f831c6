import type { Command } from "commander";
import type { Plugin, PluginOption } from "../core/plugins/index.ts";
import { type RuleName, type RuleValue, resolveRules, ruleNames, ruleTable } from "../core/plugins/rules.ts";
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
import { print } from "./output/print.ts";
import { aligned, colors, wrapped } from "./output/table.ts";

type WithOptions = Plugin & { readonly options?: Readonly<Record<string, PluginOption>> };

const kinds: Readonly<Record<string, { readonly option: string; readonly all: readonly WithOptions[] }>> = {
  index: { option: "--index", all: indexRegistry.all },
  eviction: { option: "--eviction", all: evictionRegistry.all },
  allocator: { option: "--allocator", all: allocatorRegistry.all },
  scheduler: { option: "--scheduler", all: schedulerRegistry.all },
  router: { option: "--router", all: routerRegistry.all },
};

export function addPolicies(program: Command): void {
  program
    .command("policies")
    .description("list what there is to choose from: real systems, plug-ins and reuse rules")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", "\nExamples:\n  kvlab policies\n  kvlab policies --json")
    .action(({ json }: { json?: boolean }) => {
      const shown = json ? JSON.stringify(document(), undefined, 2) : text();
      print(`${shown}\n`);
    });
}

/** The values of a rule, the default first. */
function valuesOf(name: RuleName): {
  values: readonly string[] | "number" | "limit";
  default: string | number;
} {
  const rule: { values: readonly string[] | "number" | "limit"; initial?: string | number } = ruleTable[name];
  const initial = rule.values === "limit" ? "unlimited" : rule.initial;
  return { values: rule.values, default: initial ?? rule.values[0] };
}

/** Whether any index of this version can do what the rule's value says. */
function supported(name: RuleName, value: RuleValue): boolean {
  if ("everyIndex" in ruleTable[name]) return true;
  return indexRegistry.all.some(({ supports }) => {
    const can = supports[name] ?? [valuesOf(name).default];
    return can === "any" || can.includes(value);
  });
}

function document() {
  const plugins = Object.entries(kinds).flatMap(([kind, { all }]) =>
    all.map(({ name, about, source, options }) => ({ kind, name, about, source, ...(options && { options }) })),
  );
  const rules = ruleNames.map((name) => {
    const { values } = valuesOf(name);
    const later = typeof values === "string" ? !supported(name, 1) : values.filter((value) => !supported(name, value));
    return { name, ...valuesOf(name), later, about: ruleTable[name].about };
  });
  const presets = presetRegistry.all.map(presetDocument);
  return { schema: "policies/1", plugins, presets, rules, models: modelNames, gpus: hardwareNames };
}

/** A preset with its axes: every rule in effect. */
function presetDocument(preset: Preset) {
  const { name, about, source, link, index, eviction, allocator, scheduler, blockTokens } = preset;
  const parts = { index: index.name, eviction: eviction.name, allocator: allocator.name, scheduler, blockTokens };
  return { name, about, source, link, ...parts, rules: rulesFor(index, preset.rules) };
}

const nameWidth = 22;
const indent = nameWidth + 4;

function text(): string {
  const sections = Object.entries(kinds).map(([kind, { option, all }]) => {
    const lines = all.map(({ name, about, source, options = {} }) => {
      const numbers = Object.entries(options).map(([option, { default: initial }]) => `${option}=${initial}`);
      const said = [about, colors.dim(`[${source}]`), ...numbers.map((text) => colors.cyan(text))];
      return entry(name, said.join(" "));
    });
    return [`${colors.bold(kind)} (${option})`, ...lines].join("\n");
  });
  return [presets(), ...sections, rules(), machines()].join("\n\n");
}

/** One table: a line of parts for each preset, and below it the rules that are not the general default. */
function presets(): string {
  const header = ["preset", "index", "eviction", "allocator", "scheduler", "block"];
  const rows = presetRegistry.all.map((preset) => {
    const { name, index, eviction, allocator, scheduler, blockTokens } = presetDocument(preset);
    return [name, index, eviction, allocator, scheduler, String(blockTokens)];
  });
  const [head, ...lines] = aligned([header, ...rows], "lllllr").split("\n");
  const usual = resolveRules();
  const said = presetRegistry.all.flatMap((preset, i) => {
    const own = rulesFor(preset.index, preset.rules);
    const differing = ruleNames.filter((name) => own[name] !== usual[name]).map((name) => `${name}=${own[name]}`);
    const words = differing.length === 0 ? [] : [`    ${colors.dim(wrapped(differing.join(" "), 4, 4))}`];
    return [lines[i], ...words];
  });
  const note =
    "Real systems (--preset NAME; kvlab replay --preset vllm --eviction lfu changes one axis). " +
    "Blocks are in tokens. Schedulers decide where requests overlap: --target sim.";
  return [
    `${colors.bold("preset")} (--preset)`,
    head,
    ...said,
    colors.dim(wrapped(note, 2, 2).replace(/^/, "  ")),
  ].join("\n");
}

/** What the simulator knows. */
function machines(): string {
  const list = (title: string, option: string, names: readonly string[]) =>
    `${colors.bold(title)} (${option})\n  ${wrapped(names.join(", "), 2, 2)}`;
  return [list("models", "--model", modelNames), list("hardware", "--gpu", hardwareNames)].join("\n\n");
}

const entry = (name: string, said: string) => `  ${name.padEnd(nameWidth)}  ${wrapped(said, indent, indent)}`;

const marked = (value: string, has: boolean) => (has ? value : colors.dim(`[${value}]`));

function rules(): string {
  const lines = ruleNames.map((name) => {
    const { values, default: initial } = valuesOf(name);
    const shown =
      typeof values === "string"
        ? `${colors.bold(String(initial))} | ${marked("N", supported(name, 1))}`
        : [colors.bold(values[0]), ...values.slice(1).map((value) => marked(value, supported(name, value)))].join(
            " | ",
          );
    return `  ${colors.cyan(name)} = ${shown}\n      ${wrapped(ruleTable[name].about, 6, 6)}`;
  });
  const title = `${colors.bold("rules")} (--rule NAME=VALUE; the first value is the default unless an index says otherwise; no index of this version has the values in brackets)`;
  return [wrapped(title, 0), ...lines].join("\n");
}
