import { existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Writable } from "node:stream";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import { replaceable, replaceFile } from "../../traces/replace-file.ts";
import type { TraceTarget } from "../../traces/writer.ts";
import { checkWritable, removeEmpty } from "../output/run-directory.ts";

/** The file that a call writes. */
export interface OutputFile {
  /**
   * The file to write; compressed if its name ends in .gz and the format is not compressed itself. Or a stream, which is
   * ended after the trace.
   */
  readonly out: string | Writable;
  /** Replaces the file if it exists. */
  readonly force?: boolean | undefined;
}

/** The name of an output in messages; that of a stream is "-". */
export const outputName = (out: OutputFile["out"]): string => (typeof out === "string" ? out : "-");

/**
 * Creates or replaces a file, and folders above it, or writes to the stream. The file has its final name only when it is
 * complete. `read` are files that must not be replaced.
 *
 * @throws InputError if the file exists and `force` is not given, is one of `read`, or cannot be written
 */
export async function writeOutput(
  { out, force }: OutputFile,
  read: readonly string[],
  write: (target: TraceTarget) => Promise<void>,
): Promise<void> {
  if (typeof out !== "string") return await write(out);
  await checkWritable(out, dirname(out));
  const target = await replaceable(out);
  if (read.some((file) => isSame(file, target)))
    throw new InputError(`${out}: is also the input, expected another file to write to`);
  if (existsSync(out) && !force) throw new InputError(`${out}: already exists; --force replaces it`);
  const folder = resolve(dirname(out));
  const made = makeFolder(folder, out);
  try {
    await replaceFile(out, write);
  } catch (error) {
    if (made) await removeEmpty(folder, made);
    throw error;
  }
}

/** Whether two paths are one file, through links of either kind. */
function isSame(a: string, b: string): boolean {
  const [first, second] = [a, b].map((path) => statSync(path, { bigint: true, throwIfNoEntry: false }));
  return first !== undefined && second !== undefined && first.ino === second.ino && first.dev === second.dev;
}
