import { createRequire } from "node:module";
import type koffi from "koffi";
import { ExecutorError } from "../executor.ts";

/** An argument of a C function: numbers and addresses by value; arrays by address. */
export type Argument = number | bigint | string | null | ArrayBuffer | ArrayBufferView | readonly string[] | unknown[];

/** C functions that return a status code, by name. */
export type Functions<Name extends string> = Readonly<Record<Name, (...values: Argument[]) => number>>;

/** A shared library, found under one of several names. */
export interface Library {
  readonly file: string;
  /**
   * Declares functions by their C prototypes.
   *
   * @throws ExecutorError if the library does not have one of them
   */
  declare<Name extends string>(prototypes: Readonly<Record<Name, string>>): Functions<Name>;
  /** Whether the library exports the function. */
  has(name: string): boolean;
}

type Koffi = typeof koffi;
let loaded: Koffi | undefined;

/**
 * The package that calls C functions, loaded by the first call: other backends do not need it, and it has no binaries for some
 * platforms.
 *
 * @throws ExecutorError if it does not load
 */
export function foreignFunctions(): Koffi {
  try {
    return (loaded ??= createRequire(import.meta.url)("koffi") as Koffi);
  } catch (error) {
    throw new ExecutorError(`koffi does not load: ${(error as Error).message.split("\n")[0]}; run npm install`);
  }
}

/** The first of the files that can be loaded; undefined if there is none. */
export function openLibrary(files: readonly string[]): Library | undefined {
  const { load } = foreignFunctions();
  for (const file of files) {
    try {
      return libraryOf(file, load(file));
    } catch {
      // Not found under this name.
    }
  }
  return undefined;
}

function libraryOf(file: string, handle: ReturnType<Koffi["load"]>): Library {
  return {
    file,
    declare(prototypes) {
      const functions: Record<string, (...values: Argument[]) => number> = {};
      for (const [name, prototype] of Object.entries<string>(prototypes)) {
        try {
          functions[name] = handle.func(prototype);
        } catch (error) {
          throw new ExecutorError(`${file}: ${(error as Error).message}`);
        }
      }
      return functions as Functions<keyof typeof prototypes>;
    },
    has(name) {
      try {
        handle.symbol(name);
        return true;
      } catch {
        return false;
      }
    },
  };
}
