import { mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { InputError } from "./errors.ts";

/**
 * Creates a folder and the missing folders above it. Returns the first one that was created; undefined if the folder exists.
 *
 * Node's own recursive call does not return below a folder that refuses entries with ENOENT, such as /proc.
 *
 * @param shown the path in the message
 * @throws InputError if a folder cannot be created; its cause is the system's error
 */
export function makeFolder(path: string, shown = path): string | undefined {
  const missing: string[] = [];
  for (let folder = resolve(path); !exists(folder, shown) && folder !== dirname(folder); folder = dirname(folder))
    missing.push(folder);
  for (const folder of missing.toReversed()) {
    try {
      mkdirSync(folder);
    } catch (error) {
      // Another process may have created it meanwhile.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !exists(folder, shown)) throw unwritable(shown, error);
    }
  }
  return missing.at(-1);
}

/** @throws InputError if the path is a file, or cannot be inspected */
function exists(path: string, shown: string): boolean {
  try {
    if (statSync(path).isDirectory()) return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw unwritable(shown, error);
  }
  throw new InputError(`${shown}: cannot be written (ENOTDIR)`);
}

const unwritable = (shown: string, error: unknown) =>
  new InputError(`${shown}: cannot be written (${(error as NodeJS.ErrnoException).code})`, { cause: error });
