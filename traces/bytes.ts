import { closeSync, fstatSync, openSync, readSync, rmSync, statSync, unlinkSync, writeSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InputError, TraceError } from "../core/errors.ts";

/** The path that stands for standard input. */
export const standardInputPath = "-";

/** A path in messages. */
export const shownPath = (path: string) => (path === standardInputPath ? "standard input" : path);

/** The bytes of a file or of standard input, in order. */
export interface ByteSource {
  /** Fills `into` from its start. Returns the number of bytes; 0 at the end. */
  read(into: Uint8Array): number | Promise<number>;
  close(): void | Promise<void>;
}

/** A file that is read at any position. */
export interface RandomAccessFile {
  readonly bytes: number;
  /** Reads at most `into.length` bytes at `position`. Returns the number of bytes; 0 beyond the end. */
  readAt(position: number, into: Uint8Array): number;
  close(): void;
}

/**
 * Opens a file, or standard input for the path `-`. With `peek`, bytes read from standard input are read again by the next
 * source. Waiting for standard input ends when `signal` is aborted.
 *
 * @throws TraceError if the file cannot be read or standard input has been read before
 */
export async function openBytes(path: string, { peek = false, signal }: OpenBytes = {}): Promise<ByteSource> {
  if (path === standardInputPath) return standardInput.open(peek, signal);
  const file = await openFile(path);
  return { read: (into) => readOf(path, file.fd, into, null), close: () => file.close() };
}

interface OpenBytes {
  readonly peek?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Opens a file for reads at any position.
 *
 * @throws TraceError if it cannot be read, or is standard input without a copy (`copyStandardInput`)
 */
export function openForRandomAccess(path: string): RandomAccessFile {
  if (path === standardInputPath) {
    const { fd, bytes } = standardInput.copy;
    return { bytes, readAt: (position, into) => readOf(path, fd, into, position), close: () => {} };
  }
  try {
    // Checked before it is opened, as opening a pipe blocks until it has a writer.
    const found = statSync(path);
    if (!found.isFile()) throw new TraceError(`${path}: is not a regular file, expected one`);
    const fd = openSync(path, "r");
    const readAt = (position: number, into: Uint8Array) => readOf(path, fd, into, position);
    return { bytes: fstatSync(fd).size, readAt, close: () => closeSync(fd) };
  } catch (error) {
    if (error instanceof TraceError) throw error;
    throw new TraceError(`${path}: ${whyUnreadable(error)}`);
  }
}

/**
 * Copies standard input, if it is one of the paths, to a temporary file, so that it can be opened any number of times. The
 * file is unlinked at once: no file is left, however the process ends.
 *
 * @throws InputError if the temporary file cannot be written
 */
export async function copyStandardInput(paths: readonly string[], signal?: AbortSignal): Promise<void> {
  if (paths.includes(standardInputPath)) await standardInput.copied(signal);
}

/** Reads synchronously: the next bytes are needed at once, and files are usually in the page cache. */
function readOf(path: string, fd: number, into: Uint8Array, position: number | null): number {
  try {
    return readSync(fd, into, 0, into.length, position);
  } catch (error) {
    throw new TraceError(`${shownPath(path)}: ${whyUnreadable(error)}`);
  }
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    // Checked before it is opened, as opening a pipe blocks until it has a writer.
    const found = await stat(path);
    if (found.isFile()) return await open(path, "r");
    if (found.isDirectory()) throw new TraceError(`${path}: is a directory, expected a file`);
  } catch (error) {
    if (error instanceof TraceError) throw error;
    throw new TraceError(`${path}: ${whyUnreadable(error)}`);
  }
  // Its format is recognised first, after which a pipe could not be opened again.
  throw new TraceError(`${path}: is not a regular file, expected one (pass - to read a pipe as standard input)`);
}

/** Description of a file system error. */
export function whyUnreadable(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOENT" || code === "ENOTDIR") return "no such file";
  if (code === "ENAMETOOLONG") return "the name is longer than the file system allows";
  if (code === "EACCES" || code === "EPERM") return "no permission to read it";
  return `cannot be read (${code ?? message})`;
}

/** Standard input, which the process has once. */
class StandardInput {
  /** Bytes that are read before further ones of the stream. */
  #pending: Uint8Array[] = [];
  #stream: AsyncIterator<Uint8Array> | undefined;
  #wasRead = false;
  #copy: { readonly fd: number; readonly bytes: number } | undefined;

  /** @throws TraceError if it has been read, unless it was copied or only peeked at */
  open(peek: boolean, signal: AbortSignal | undefined): ByteSource {
    const copy = this.#copy;
    if (copy) {
      let position = 0;
      const read = (into: Uint8Array) => {
        const count = readOf(standardInputPath, copy.fd, into, position);
        position += count;
        return count;
      };
      return { read, close: () => {} };
    }
    if (this.#wasRead) throw new TraceError("standard input: can be read only once");
    this.#wasRead = !peek;
    const recorded: Uint8Array[] = [];
    const read = async (into: Uint8Array) => {
      const count = await this.#read(into, signal);
      if (peek && count > 0) recorded.push(into.slice(0, count));
      return count;
    };
    const close = () => {
      if (peek) this.#pending.unshift(...recorded);
      else process.stdin.destroy();
    };
    return { read, close };
  }

  /** @throws TraceError if there is none */
  get copy(): { readonly fd: number; readonly bytes: number } {
    if (!this.#copy) throw new TraceError("standard input: is not a file, expected one");
    return this.#copy;
  }

  async copied(signal: AbortSignal | undefined): Promise<{ readonly fd: number; readonly bytes: number }> {
    if (this.#copy) return this.#copy;
    const source = this.open(false, signal);
    const fd = temporaryFile("standard input");
    const chunk = new Uint8Array(1 << 20);
    let bytes = 0;
    for (let count = await source.read(chunk); count > 0; count = await source.read(chunk)) {
      writeTemporary("standard input", fd, chunk.subarray(0, count));
      bytes += count;
    }
    this.#copy = { fd, bytes };
    return this.#copy;
  }

  async #read(into: Uint8Array, signal: AbortSignal | undefined): Promise<number> {
    const chunk = this.#pending.shift() ?? (await this.#next(signal));
    if (chunk === undefined) return 0;
    const count = Math.min(chunk.length, into.length);
    into.set(chunk.subarray(0, count));
    if (count < chunk.length) this.#pending.unshift(chunk.subarray(count));
    return count;
  }

  async #next(signal: AbortSignal | undefined): Promise<Uint8Array | undefined> {
    signal?.throwIfAborted();
    // Only a pending read keeps the process alive. A file as standard input has neither method.
    const stdin: { ref?: () => void; unref?: () => void } = process.stdin;
    const stop = () => process.stdin.destroy();
    stdin.ref?.();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      this.#stream ??= process.stdin[Symbol.asyncIterator]();
      const { done, value } = await this.#stream.next();
      signal?.throwIfAborted();
      return done ? undefined : value;
    } catch (error) {
      signal?.throwIfAborted();
      throw new TraceError(`standard input: ${whyUnreadable(error)}`);
    } finally {
      signal?.removeEventListener("abort", stop);
      stdin.unref?.();
    }
  }
}

const standardInput = new StandardInput();

const unwritable = (what: string, error: unknown) => {
  const { code, message } = error as NodeJS.ErrnoException;
  return new InputError(`${what}: cannot be copied to a file in ${tmpdir()} (${code ?? message})`);
};

let temporaryFiles = 0;

/**
 * The descriptor of an open file without a name, for a copy of `what`: no file is left, however the process ends.
 *
 * @throws InputError if it cannot be created
 */
export function temporaryFile(what: string): number {
  const path = join(tmpdir(), `kvlab-${what.replaceAll(" ", "-")}-${process.pid}-${++temporaryFiles}`);
  try {
    rmSync(path, { force: true });
    const fd = openSync(path, "wx+", 0o600);
    try {
      unlinkSync(path);
    } catch {
      // Windows removes no open file.
      process.once("exit", () => rmSync(path, { force: true }));
    }
    return fd;
  } catch (error) {
    throw unwritable(what, error);
  }
}

/** Appends bytes to a temporary file. @throws InputError if they cannot be written */
export function writeTemporary(what: string, fd: number, bytes: Uint8Array): void {
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
  } catch (error) {
    throw unwritable(what, error);
  }
}
