import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import type { Generator, OptionsOf } from "./generator.ts";
import * as all from "./index.ts";

type Declared = (typeof all)[keyof typeof all];

/** The name of a generator, by default chat, and values of its parameters. */
export type GeneratorChoice =
  | ({ readonly generator?: undefined } & OptionsOf<typeof all.chat>)
  | { [Each in Declared as Each["name"]]: { readonly generator: Each["name"] } & OptionsOf<Each> }[Declared["name"]];

/** The generator of the built-in example. */
export const defaultGenerator: Generator = all.chat;

/** All generators, by name. */
export const generators: readonly Generator[] = Object.values<Generator>(all);

/** @throws InputError that lists the known names */
export function generatorNamed(name: string): Generator {
  const found = generators.find((generator) => generator.name === name);
  if (found) return found;
  const names = generators.map((generator) => generator.name);
  const near = nearest(name, names);
  throw new InputError(
    `unknown generator "${name}"${near ? `: did you mean "${near}"?` : `, expected one of ${names.join(", ")}`}`,
  );
}
