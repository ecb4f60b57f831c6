import { readFile, stat } from "node:fs/promises";
import { InputError } from "../core/errors.ts";
import { whyUnreadable } from "./bytes.ts";

const mostBytes = 1 << 28;

/**
 * The text of a small file that a user names. Devices and pipes are refused, because reading them may never end.
 *
 * @throws InputError if it cannot be read, is no regular file, or is larger than 256 MiB
 */
export async function readTextFile(path: string): Promise<string> {
  const found = await stat(path).catch((error: unknown) => {
    throw new InputError(`${path}: ${whyUnreadable(error)}`);
  });
  if (found.isDirectory()) throw new InputError(`${path}: is a directory, expected a file`);
  if (!found.isFile()) throw new InputError(`${path}: is not a regular file, expected one`);
  if (found.size > mostBytes) throw new InputError(`${path}: has ${found.size} bytes, expected at most ${mostBytes}`);
  return await readFile(path, "utf8").catch((error: unknown) => {
    throw new InputError(`${path}: ${whyUnreadable(error)}`);
  });
}
