import { CommanderError } from "commander";
import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import type { Scalar } from "../../lab/sweep/axes.ts";
import { resolve } from "../../lab/sweep/configuration.ts";
import type { SweepConfiguration, SweptOptions } from "../../lab/sweep/options.ts";
import type { SweepFile } from "../../lab/sweep/sweep-file.ts";
import { replayOptionNames, replayOptionsParser } from "../replay.ts";

/** Options of `kvlab replay` that write or show one run, which a sweep does not do. */
const ofOneRun = [
  ...["out", "no-save", "save", "json", "live", "repeat", "events", "timeline"],
  ...["explain", "explain-top", "residency", "help"],
];

const optionNames = replayOptionNames().filter((name) => !ofOneRun.includes(name));

/** The configurations of a sweep file, with its options parsed as those of the command line. @throws InputError with file and line */
export async function configurationsOf(file: SweepFile): Promise<SweepConfiguration[]> {
  const parse = replayOptionsParser();
  for (const { option, value, place } of file.values) {
    const name = option.split(".")[0];
    if (ofOneRun.includes(name))
      throw new InputError(`${place}: ${name} is an option of one run, which a sweep does not have`);
    at(place, () => parse(wordsOf({ [option]: value })));
  }
  const checked = new Set<string>();
  const configurations: SweepConfiguration[] = [];
  for (const { trace, options: written, varied } of file.configurations) {
    const words = wordsOf(written);
    const options = at(placeIn(file, written), () => sweptOptions(parse(words)));
    if (!checked.has(words.join("\n"))) await at(placeIn(file, written), () => resolve(options));
    checked.add(words.join("\n"));
    configurations.push({ trace, options, varied });
  }
  return configurations;
}

/** `eviction: lru`, `rule.free-order: forward`, `ep: true` as arguments. */
export const wordsOf = (options: Readonly<Record<string, Scalar>>): string[] =>
  Object.entries(options).flatMap(([option, value]) => {
    const at = option.indexOf(".");
    const [name, part] = at < 0 ? [option, ""] : [option.slice(0, at), `${option.slice(at + 1)}=`];
    if (typeof value === "boolean" && part === "") return value ? [`--${name}`] : [];
    return [`--${name}=${part}${value}`];
  });

/** Without the fields of the command line. */
function sweptOptions({
  rule: _,
  save: __,
  ...options
}: ReturnType<ReturnType<typeof replayOptionsParser>>): SweptOptions {
  return options as SweptOptions;
}

/** The place of the first option that a message names; otherwise of `vary`. */
function placeIn(file: SweepFile, written: Readonly<Record<string, Scalar>>) {
  return (message: string): string => {
    const names = Object.keys(written).map((option) => option.split(".")[0]);
    const named = names.find((name) => message.includes(`--${name} `) || message.includes(`--${name}:`));
    const valued = Object.entries(written).find(
      ([, value]) => typeof value === "string" && message.includes(`"${value}"`),
    );
    return file.placeOf(named ?? valued?.[0] ?? "vary");
  };
}

function unknownOption(_: string, name: string): string {
  const near = nearest(name, optionNames);
  return `unknown option "${name}"; ${near === undefined ? "kvlab replay --help lists all" : `did you mean "${near}"?`}`;
}

/** Calls `act`; an error about its input gets a place. */
function at<Result>(place: string | ((message: string) => string), act: () => Result): Result {
  const placed = (error: unknown): never => {
    if (!(error instanceof InputError || error instanceof CommanderError)) throw error;
    const message = error.message.replace(/^error: /, "").replace(/^unknown option '--([^'=]+).*$/s, unknownOption);
    throw new InputError(`${typeof place === "string" ? place : place(message)}: ${message.replace(/\s*\n\s*/g, " ")}`);
  };
  try {
    const result = act();
    return result instanceof Promise ? (result.catch(placed) as Result) : result;
  } catch (error) {
    return placed(error);
  }
}
