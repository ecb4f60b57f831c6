import { type Command, Option } from "commander";
import { InputError } from "../../core/errors.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import { backendNames } from "../../engine/backends.ts";
import { limitNames, units } from "../../lab/output/command-line.ts";
import { outputEnds, paces } from "../../lab/run/paces.ts";
import type { NamedNumbers } from "../../lab/run/simulation-options.ts";
import { bitsOption, commaList, decimalNumber, path, wholeNumber } from "./options.ts";

const positive = (name: string) => (text: string) => {
  const value = decimalNumber(name)(text);
  if (value > 0) return value;
  throw new InputError(`${name} is ${text}, expected a number above 0`);
};
const replicaCount = wholeNumber("--replicas", 1, 4096);

/** Adds what says how a simulation runs. */
export function addSimulationOptions(command: Command): Command {
  return addCommonOptions(command)
    .option("--replicas <N>", "engines with a cache each (default: 1)", replicaCount)
    .option("--router <NAME>", "who gets a request (default: round-robin)")
    .option("--rate <N>", "requests a second on average, instead of --speed", positive("--rate"))
    .option("--timeline <FILE>", "write every step and request for Perfetto", path("--timeline", "a file"))
    .optionsGroup("Options:");
}

/** The same for `compare`: comma lists where comparing says something. */
export function addSimulationLists(command: Command): Command {
  const listOf =
    <T>(option: string, parse: (text: string) => T) =>
    (text: string) =>
      commaList(option, text).map(parse);
  return addCommonOptions(command)
    .option("--replicas <NS>", "engines with a cache each (default: 1)", listOf("--replicas", replicaCount))
    .option(
      "--router <NAMES>",
      "who gets a request (default: round-robin)",
      listOf("--router", (name) => name),
    )
    .option("--rate <NS>", "requests a second on average, instead of --speed", listOf("--rate", positive("--rate")))
    .optionsGroup("Options:");
}

function addCommonOptions(command: Command): Command {
  return command
    .optionsGroup("The simulator (--target sim):")
    .option("--model <NAME>", "model, or its config.json (default: llama-3.1-8b); of a real engine see below")
    .option("--gpu <NAME>", "its hardware (default: h200)")
    .option("--tp <N>", "devices that share the model (default: 1)", wholeNumber("--tp", 1, 1024))
    .option("--kv-dtype <TYPE>", "of keys and values (default: the model's)")
    .option("--gpu-memory <SHARE>", "of a device's memory that may be used (default: 0.9)", share("--gpu-memory"))
    .option("--capacity <SIZE>", "memory of the cache, such as 16GiB, instead of --blocks", bytes("--capacity", 1))
    .option("--swap-space <SIZE>", "host memory for preempted requests (default: 4GiB)", bytes("--swap-space", 0))
    .option("--cost <FILE>", "step times: fitted coefficients, or a run to repeat", path("--cost", "a file"))
    .option("--efficiency <NAME=N>", "a factor of the roofline (repeatable)", namedNumber("--efficiency"))
    .option("--scheduler-option <NAME=N>", "such as max-num-seqs=64 (repeatable)", namedNumber("--scheduler-option"))
    .option("--router-option <NAME=N>", "an option of the router (repeatable)", namedNumber("--router-option"))
    .addOption(new Option("--loop <LOOP>", "open: as recorded; closed: turns wait for answers").argParser(loop))
    .option("--speed <N>", "times as fast as recorded (default: 1)", positive("--speed"))
    .option("--max-output <N>", "tokens that clients ask for at least", wholeNumber("--max-output", 1))
    .addOption(new Option("--spread <HOW>", "equal arrival times: none, or uniform until the next").argParser(spread))
    .option("--slo <LIMITS>", "what is promised, such as ttft=500ms,tpot=50ms,e2e=10s", slo)
    .optionsGroup(`A real engine (--target ${backendNames.join(" or ")}; --model: a folder, or random:NAME):`)
    .option("--threads <N>", "of its operators (default: all)", wholeNumber("--threads", 1, 1024))
    .addOption(bitsOption())
    .addOption(new Option("--pace <PACE>", "busy: no idle time; real; none: all at once").argParser(pace))
    .addOption(new Option("--answers <ENDS>", "trace: as long as recorded; free: the model ends them").argParser(ends))
    .option("--fold", "token ids that the model does not have become others")
    .optionsGroup("The simulator (--target sim):");
}

function oneOf<T extends string>(option: string, values: readonly T[]) {
  return (text: string): T => {
    const found = values.find((value) => value === text);
    if (found) return found;
    throw new InputError(`${option} is "${text}", expected ${values.join(" or ")}`);
  };
}

const loop = oneOf("--loop", ["open", "closed"]);
const spread = oneOf("--spread", ["none", "uniform"]);
const pace = oneOf("--pace", paces);
const ends = oneOf("--answers", outputEnds);

function share(option: string) {
  return (text: string): number => {
    const value = decimalNumber(option)(text);
    if (value > 0 && value <= 1) return value;
    throw new InputError(`${option} is ${text}, expected a share above 0, up to 1`);
  };
}

/** NAME=NUMBER, each name once. */
export function namedNumber(option: string) {
  return (text: string, before: NamedNumbers = {}): NamedNumbers => {
    const [, name, value] = /^([a-zA-Z][\w-]*)=(.+)$/.exec(text) ?? [];
    if (name === undefined) throw new InputError(`${option} is "${text}", expected NAME=NUMBER`);
    if (Object.hasOwn(before, name)) throw new InputError(`${option} ${name} is given twice, expected once`);
    return { ...before, [name]: decimalNumber(`${option} ${name}`)(value) };
  };
}

/** `16GiB`, `40GB`; without a unit only 0. @throws InputError */
export function bytes(option: string, least: 0 | 1) {
  return (text: string): number => {
    const [, number, unit] = /^(\d+(?:\.\d+)?) ?([KMGT]i?B)$/i.exec(text === "0" ? "0kB" : text) ?? [];
    const value = Math.floor(Number(number) * (units[unit?.toLowerCase() ?? ""] ?? Number.NaN));
    if (value >= least && value <= Number.MAX_SAFE_INTEGER) return value;
    throw new InputError(`${option} is "${text}", expected a size such as 16GiB or 500MB`);
  };
}

/** `ttft=500ms,tpot=50ms`. @throws InputError */
function slo(text: string): Slo {
  const limits: Partial<Record<(typeof limitNames)[keyof typeof limitNames], number>> = {};
  for (const part of text.split(",")) {
    const [, name, number, unit] = /^ *(\w+) *= *(\d+(?:\.\d+)?(?:e[+-]?\d+)?) *(ms|s) *$/.exec(part) ?? [];
    if (name === undefined || !Object.hasOwn(limitNames, name))
      throw new InputError(`--slo has "${part}", expected ttft, tpot or e2e with a time, such as ttft=500ms`);
    const key = limitNames[name as keyof typeof limitNames];
    if (limits[key] !== undefined) throw new InputError(`--slo has ${name} twice`);
    const value = Number(number) * (unit === "s" ? 1000 : 1);
    if (value <= 0)
      throw new InputError(`--slo has ${name}=${number}${unit}, which nothing can keep; expected more than 0`);
    limits[key] = value;
  }
  return limits;
}
