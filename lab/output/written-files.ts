import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";

/**
 * Writes files to a folder, each under a temporary name until it is complete, and replaces those that it has. Returns the paths.
 *
 * @throws InputError if a file cannot be written
 */
export async function writeFiles(
  folder: string,
  files: ReadonlyMap<string, (path: string) => Promise<void>>,
): Promise<string[]> {
  makeFolder(folder);
  const written: string[] = [];
  for (const [file, write] of files) {
    const path = join(folder, file);
    const temporary = `${path}.part`;
    try {
      await write(temporary);
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      const { code } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      throw new InputError(`${path}: cannot be written (${code})`);
    }
    written.push(path);
  }
  return written;
}
