import { lstat, realpath, rename, rm } from "node:fs/promises";
import { InputError } from "../core/errors.ts";
import { unfinished } from "../core/unfinished.ts";

/**
 * Writes a file under a temporary name beside it, which is renamed when the file is complete: until then an existing file is
 * unchanged. The temporary file is removed if `write` throws or the process exits.
 *
 * @throws InputError if the file cannot be written
 */
export async function replaceFile(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
  const target = await replaceable(path);
  const temporary = `${target}.unfinished-${process.pid}`;
  unfinished.add(temporary);
  try {
    await write(temporary);
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    const why = whyUnwritable(error);
    if (why === undefined) throw error;
    throw new InputError(`${path}: cannot be written (${why})`);
  } finally {
    unfinished.delete(temporary);
  }
}

/** Why the system refused to write; undefined for another error. */
export function whyUnwritable(error: unknown): string | undefined {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return syscall === undefined ? undefined : (reasons[code ?? ""] ?? code);
}

const reasons: Readonly<Record<string, string>> = {
  ENOSPC: "ENOSPC: no space left on the device",
  EDQUOT: "EDQUOT: the disk quota is used up",
  EFBIG: "EFBIG: the file is larger than the system allows",
};

/**
 * The target of a path, with links resolved. A device or pipe is refused, as it would be replaced instead of written to.
 *
 * @throws InputError if the path exists and is not a regular file.
 */
export async function replaceable(path: string): Promise<string> {
  const target = await realpath(path).catch(() => path);
  const found = await lstat(target).catch(() => undefined);
  if (found && !found.isFile()) throw new InputError(`${path}: is not a regular file, so it is not replaced`);
  return target;
}
