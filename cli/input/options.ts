import { type Command, Option } from "commander";
import { alternatives } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { parseRule, type RuleName, type RuleValue, ruleNames } from "../../core/plugins/rules.ts";
import type { WeightBits } from "../../engine/backend.ts";
import { type BackendName, backendNames, backends, defaultBackend } from "../../engine/backends.ts";
import type { RuleLists } from "../../lab/compare/combinations.ts";
import { type Metric, metrics } from "../../lab/output/hit-ratios.ts";
import type { Capacity } from "../../lab/run/capacity.ts";
import { isEngine, type Target, targets } from "../../lab/run/target.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { type TimeUnit, timeUnits } from "../../traces/format.ts";

/** A parser for a whole number. @throws InputError naming the option. */
export function wholeNumber(option: string, least: number, most = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    const range = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
    throw new InputError(`${option} is "${text}", expected a whole number ${range}`);
  };
}

/** 12, 0.5, .5, 1e-7. */
const numberPattern = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A parser for any number; its range is checked where it is used. @throws InputError naming the option. */
export function decimalNumber(option: string) {
  return (text: string): number => {
    const value = Number(text);
    if (numberPattern.test(text) && Number.isFinite(value)) return value;
    throw new InputError(`${option} is "${text}", expected a number`);
  };
}

const mostBlocks = 2 ** 31 - 1;

/** `10000`, `10%` or `unlimited`. */
export const parseCapacity = (text: string): Capacity =>
  text === "unlimited" ? text : parseSize(text, `a percentage of the distinct blocks such as 10%, or unlimited`);

/** `10000` or `10%`. */
export function parseSize(
  text: string,
  alternative = "or a percentage of the distinct blocks such as 10%",
): Exclude<Capacity, "unlimited"> {
  const share = /^(\d+(?:\.\d+)?)%$/.exec(text);
  if (share && Number(share[1]) > 0) return { share: Number(share[1]) / 100 };
  const blocks = Number(text);
  if (/^\d+$/.test(text) && blocks >= 1 && blocks <= mostBlocks) return { blocks };
  throw new InputError(`--blocks is "${text}", expected a whole number from 1 to ${mostBlocks}, ${alternative}`);
}

/** The items of a comma-separated list. @throws InputError if one is empty or given twice. */
export function commaList(option: string, text: string): string[] {
  const items = text.split(",").map((item) => item.trim());
  if (items.includes("")) throw new InputError(`${option} is "${text}", expected names with commas between them`);
  const twice = items.find((item, i) => items.indexOf(item) !== i);
  if (twice !== undefined) throw new InputError(`${option} has "${twice}" twice`);
  return items;
}

/** Names of presets, or `all`. */
export const parsePresets = (text: string): readonly string[] =>
  text === "all" ? presetRegistry.all.map(({ name }) => name) : commaList("--preset", text);

/** `NAME=VALUE`, or `NAME=VALUE,VALUE…`. @throws InputError that lists the known names or values. */
export function parseRuleOption(text: string): { name: RuleName; values: RuleValue[] } {
  const at = text.indexOf("=");
  if (at < 1) throw new InputError(`--rule is "${text}", expected NAME=VALUE, such as free-order=forward`);
  const name = text.slice(0, at);
  if (!(ruleNames as readonly string[]).includes(name)) {
    const near = nearest(name, ruleNames);
    throw new InputError(
      near ? `unknown rule "${name}": did you mean "${near}"?` : `unknown rule "${name}"; kvlab policies lists all`,
    );
  }
  return {
    name: name as RuleName,
    values: commaList(`--rule ${name}`, text.slice(at + 1)).map((value) => parseRule(name, value)),
  };
}

/** The values of `--rule`, by rule. */
export function parseRuleLists(texts: readonly string[]): RuleLists {
  return Object.fromEntries(texts.map(parseRuleOption).map(({ name, values }) => [name, values]));
}

/** `--metric`. @throws InputError with the nearest name */
export function parseMetric(text: string): Metric {
  const metric = metrics.find((name) => name === text);
  if (metric) return metric;
  const near = nearest(text, metrics);
  throw new InputError(
    `--metric is "${text}", ${near ? `did you mean "${near}"?` : `expected one of ${metrics.join(", ")}`}`,
  );
}

/** A parser for a path that is given once. @throws InputError naming the option. */
export function path(option: string, expected: "a file" | "a folder") {
  return (text: string, before: string | undefined): string => {
    if (before !== undefined) throw new InputError(`${option} is given twice, expected once`);
    if (text === "") throw new InputError(`${option} is empty, expected ${expected}`);
    return text;
  };
}

/** A parser for `--rule`. @throws InputError if a rule is given twice. */
export function rule(text: string, before: readonly string[] = []): string[] {
  const [name] = text.split("=");
  if (before.some((other) => other.split("=")[0] === name))
    throw new InputError(`--rule ${name} is given twice; kvlab compare takes several values: --rule ${name}=A,B`);
  return [...before, text];
}

/** The options of one composition, for verify and calibrate. */
export function addParts(command: Command): Command {
  return command
    .option("--preset <NAME>", "composition of a real system; the options below replace its parts")
    .option("--index <NAME>", "prefix index, or a plug-in file")
    .option("--eviction <NAME>", "eviction policy, or a plug-in file")
    .option("--allocator <NAME>", "allocator, or a plug-in file")
    .option("--scheduler <NAME>", "scheduler, or a plug-in file")
    .option("--rule <NAME=VALUE>", "reuse rule (repeatable; kvlab policies lists them)", rule);
}

export function addBlockSize(command: Command): Command {
  const parse = wholeNumber("--block-size", 1);
  return command.option("--block-size <TOKENS>", "tokens per block, a multiple of the trace's unit", parse);
}

export function addTraceOptions(command: Command): Command {
  return command
    .option("--format <FORMAT>", "format of the trace, or a reader plug-in (default: detected)")
    .option("--unit <TOKENS>", "tokens per content id of the trace (default: 512)", wholeNumber("--unit", 1))
    .option("--time-unit <UNIT>", `unit of the trace's times: ${timeUnitList} (default: the format's)`, parseTimeUnit)
    .option(
      "--session-spread <S[,SEED]>",
      "start each session at a random time in so many seconds, where sessions have no start (default: all at 0)",
      parseSessionSpread,
    )
    .option("--tokenizer <FILE>", "tokenizer.json for traces of text (default: one token per byte)")
    .option("--limit <N>", "read only the first N requests", wholeNumber("--limit", 1));
}

/** `3600`, or `3600,7` with a seed. */
function parseSessionSpread(text: string): { readonly seconds: number; readonly seed: number } {
  const found = /^(\d+(?:\.\d+)?)(?:,(\d{1,9}))?$/.exec(text);
  if (found) return { seconds: Number(found[1]), seed: Number(found[2] ?? 1) };
  throw new InputError(`--session-spread is "${text}", expected seconds, or seconds and a seed such as 3600,7`);
}

const timeUnitList = alternatives(timeUnits);

function parseTimeUnit(text: string): TimeUnit {
  const unit = timeUnits.find((name) => name === text);
  if (unit) return unit;
  throw new InputError(`--time-unit is "${text}", expected ${timeUnitList}`);
}

const parseSeed = wholeNumber("--seed", 0, 2 ** 32 - 1);
const seedOption = new Option("--seed <N>", "random seed of policies").argParser(parseSeed).default(1);

/** `--seed` with several seeds, for `what`. */
export const seedsOption = (what: string): Option =>
  new Option("--seed <N,…>", `random seed of ${what}, or several, which are shown as one band`)
    .argParser((text: string) => commaList("--seed", text).map(parseSeed))
    .default([1], "1");

/** The options of a run, for replay and compare; the latter has its own `--seed`. */
export function addRunOptions(command: Command, seed = seedOption): Command {
  return command
    .option("--warmup <N>", "leading requests that are served but not measured", wholeNumber("--warmup", 0), 0)
    .option(
      "--target <TARGET>",
      `cache (no clock, hits only), sim (a cluster in virtual time) or ${backendNames.join(" or ")} (a real engine)`,
      parseTarget,
      "cache",
    )
    .addOption(seed)
    .option("--audit", "check all invariants after every step (slow)");
}

/** Former names of options, which are refused with their current name. */
const renamedOptions: Readonly<Record<string, string>> = {
  policy: "preset",
  answers: "output-lengths",
};

/** `--bits`: the precision to which a model's weights are rounded. */
export const bitsOption = (): Option =>
  new Option("--bits <N>", `bits per weight of the model: ${bitsList} (default: ${defaultBits})`).argParser(
    (text: string): WeightBits => {
      const bits = allBits.find((each) => String(each) === text);
      if (bits !== undefined) return bits;
      throw new InputError(`--bits is "${text}", expected ${bitsList}`);
    },
  );

/** Bits per weight that any backend supports, the most first. */
const allBits = [...new Set(backends.flatMap(({ weightBits }): readonly WeightBits[] => weightBits))].sort(
  (a, b) => b - a,
);
const bitsList = alternatives(allBits);
const defaultBits = backends
  .map(({ name, weightBits }, i) => (i === 0 ? weightBits[0] : `${weightBits[0]} with --target ${name}`))
  .join("; ");

/** Adds the former names of options, hidden in the help. */
export function addRenamedOptions(command: Command): Command {
  for (const [name, current] of Object.entries(renamedOptions)) {
    command.addOption(new Option(`--${name} [VALUE]`).hideHelp());
    command.on(`option:${name}`, (value: string | null) => {
      const given = value === null ? `--${name}` : `--${name} ${value}`;
      throw new InputError(`${given}: is called --${current}`);
    });
  }
  return command;
}

const targetList = alternatives(targets);

function parseTarget(text: string): Target {
  const target = targets.find((name) => name === text);
  if (target) return target;
  if (/^https?:\/\//.test(text))
    throw new InputError(`--target ${text}: servers are not part of this version; expected ${targetList}`);
  throw new InputError(`unknown target "${text}"; expected ${targetList}`);
}

/** `--target` of a command that needs an engine, for the reason `purpose`. */
export const engineTargetOption = (purpose: string): Option =>
  new Option("--target <TARGET>", `backend of the engine: ${backendNames.join(" or ")}`)
    .default(defaultBackend.name)
    .argParser((text: string): BackendName => {
      if (isEngine(text)) return text;
      throw new InputError(`--target is "${text}", expected ${backendNames.join(" or ")}: ${purpose}`);
    });
