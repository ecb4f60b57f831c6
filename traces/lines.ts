import { isUtf8 } from "node:buffer";
import { readSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { createGunzip } from "node:zlib";
import { TraceError } from "../core/errors.ts";

const chunkBytes = 1 << 20;
/** Compressed bytes per call of zlib: deflate expands at most 1,032 times, so this bounds the memory. */
const packedBytes = 1 << 15;
const longestLineBytes = 1 << 28;
const newline = 10;
/** A file that begins with more bytes of blank lines is refused: reading them from a small gzip file could take minutes. */
const mostBlankBytes = 1 << 24;
/** Whether the byte is neither white space nor a control character. */
const isInk = (byte: number) => byte > 0x20;

/** Lets the event loop deliver signals. @throws The signal's reason if it is aborted */
async function nextTurn(signal: AbortSignal): Promise<void> {
  await new Promise((resume) => setImmediate(resume));
  signal.throwIfAborted();
}

/**
 * Some whole lines of a file and a cursor on one of them. Valid until the next block is read, which overwrites the bytes.
 */
export class LineBlock {
  readonly file: string;
  /** The bytes of the block; at `end` there is always a line end, so that a scanner may read one byte beyond. */
  bytes: Uint8Array = new Uint8Array();
  /** The current line is `bytes[start .. end)`. */
  start = 0;
  end = -1;
  /** Number of the current line, from 1. */
  line = 0;
  /** False only for the last line of a file that does not end with a line end. */
  terminated = true;
  #filled = 0;
  #lastIsWhole = true;

  constructor(file: string) {
    this.file = file;
  }

  /** Moves to the next line; false when the block has no more. */
  next(): boolean {
    if (this.end + 1 >= this.#filled) return false;
    this.start = this.end + 1;
    this.end = this.bytes.indexOf(newline, this.start);
    this.line++;
    this.terminated = this.#lastIsWhole || this.end < this.#filled;
    return true;
  }

  /** The current line as text. */
  text(): string {
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset + this.start, this.end - this.start).toString();
  }

  /** Points at `bytes[0 .. filled)`; line numbers continue. */
  refill(bytes: Uint8Array, filled: number, lastIsWhole: boolean): void {
    this.bytes = bytes;
    this.#filled = filled;
    this.#lastIsWhole = lastIsWhole;
    this.end = -1;
  }
}

/**
 * Reads a text file, plain or gzip (detected from the content), block by block in bounded memory. All blocks are one object,
 * refilled.
 *
 * @throws TraceError if the file cannot be read, is empty, begins with 16 MiB of blank lines, is not UTF-8 text, or its
 * gzip data is damaged; the signal's reason once it is aborted
 */
export async function* lineBlocks(path: string, signal?: AbortSignal): AsyncGenerator<LineBlock> {
  const file = await openFile(path);
  try {
    yield* blocksOf(path, file, signal);
  } finally {
    await file.close();
  }
}

async function* blocksOf(path: string, file: FileHandle, signal?: AbortSignal): AsyncGenerator<LineBlock> {
  const lines = new LineBlock(path);
  let buffer = new Uint8Array(2 * chunkBytes + 1);
  // buffer   [0 ... kept)          [kept ... filled)      + 1 byte for the line end after a last line without one
  // content  start of a line       bytes just read
  let kept = 0;
  let any = false;
  let blankBytes = 0;
  for await (const chunk of unpackedChunks(path, file, lines)) {
    if (signal) await nextTurn(signal);
    if (blankBytes >= 0) blankBytes = chunk.some(isInk) ? -1 : blankBytes + chunk.length;
    if (blankBytes > mostBlankBytes)
      throw new TraceError(`${path}: the first ${mostBlankBytes >> 20} MiB are blank lines, expected a trace`);
    if (!any && hasByteOrderMark(chunk)) chunk.fill(0x20, 0, 3);
    any = true;
    const filled = kept + chunk.length;
    if (filled > longestLineBytes)
      throw new TraceError(`${path}:${lines.line + 1}: the line is longer than 256 MiB, expected a text file of lines`);
    if (filled >= buffer.length) buffer = resized(buffer, kept, filled * 2);
    buffer.set(chunk, kept);
    const zero = chunk.indexOf(0);
    if (zero >= 0) throw notText(path, lines.line, buffer, kept + zero, "a zero byte");
    const lastNewline = chunk.lastIndexOf(newline);
    if (lastNewline >= 0) {
      const whole = kept + lastNewline + 1;
      yield checked(path, lines, buffer, whole, true);
      buffer.copyWithin(0, whole, filled);
      kept = filled - whole;
    } else kept = filled;
  }
  if (!any) throw new TraceError(`${path}: the file is empty, expected a trace`);
  if (kept === 0) return;
  buffer[kept] = newline;
  yield checked(path, lines, buffer, kept, false);
}

/** Fills the line block with these bytes, which are whole lines, after a check that they are UTF-8. */
function checked(path: string, lines: LineBlock, bytes: Uint8Array, filled: number, lastIsWhole: boolean): LineBlock {
  if (!isUtf8(bytes.subarray(0, filled))) throw notUtf8(path, lines.line, bytes.subarray(0, filled));
  lines.refill(bytes, filled, lastIsWhole);
  return lines;
}

function resized(buffer: Uint8Array, kept: number, length: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(length);
  larger.set(buffer.subarray(0, kept));
  return larger;
}

function hasByteOrderMark(chunk: Uint8Array): boolean {
  return chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf;
}

function notUtf8(path: string, linesBefore: number, bytes: Uint8Array): TraceError {
  let line = linesBefore;
  for (let start = 0; start < bytes.length; ) {
    const found = bytes.indexOf(newline, start);
    const end = found < 0 ? bytes.length : found;
    line++;
    if (!isUtf8(bytes.subarray(start, end))) break;
    start = end + 1;
  }
  return new TraceError(`${path}:${line}: the line is not UTF-8, expected text, plain or gzip`);
}

function notText(path: string, linesBefore: number, bytes: Uint8Array, at: number, found: string): TraceError {
  let line = linesBefore + 1;
  for (let i = 0; i < at; i++) if (bytes[i] === newline) line++;
  return new TraceError(`${path}:${line}: the line has ${found}, expected text, plain or gzip`);
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
  // A trace is read more than once (its format is recognised first), which a pipe cannot do.
  throw new TraceError(`${path}: is not a regular file, expected one (save a pipe's output to a file first)`);
}

/** Description of a file system error. */
export function whyUnreadable(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOENT" || code === "ENOTDIR") return "no such file";
  if (code === "ENAMETOOLONG") return "the name is longer than the file system allows";
  if (code === "EACCES" || code === "EPERM") return "no permission to read it";
  return `cannot be read (${code ?? message})`;
}

/** The file's bytes, decompressed if it is gzip; each chunk is valid until the next. */
async function* unpackedChunks(path: string, file: FileHandle, lines: LineBlock): AsyncGenerator<Uint8Array> {
  const magic = new Uint8Array(2);
  const { bytesRead } = await file.read(magic, 0, 2, 0).catch((error) => {
    throw new TraceError(`${path}: ${whyUnreadable(error)}`);
  });
  const packed = bytesRead === 2 && magic[0] === 0x1f && magic[1] === 0x8b;
  if (packed) yield* gunzip(path, file, lines);
  else yield* chunksOf(path, file, chunkBytes);
}

/** Reads synchronously: the next bytes are needed at once, and files are usually in the page cache. */
function* chunksOf(path: string, file: FileHandle, size: number): Generator<Uint8Array> {
  const buffer = new Uint8Array(size);
  for (;;) {
    let count: number;
    try {
      count = readSync(file.fd, buffer);
    } catch (error) {
      throw new TraceError(`${path}: ${whyUnreadable(error)}`);
    }
    if (count === 0) return;
    yield buffer.subarray(0, count);
  }
}

/**
 * Calls zlib directly, chunk by chunk: a stream would discard the data decompressed before an error, and with it the line
 * number at which the data ends.
 */
async function* gunzip(path: string, file: FileHandle, lines: LineBlock): AsyncGenerator<Uint8Array> {
  const stream = createGunzip({ chunkSize: 1 << 18 });
  const unpacked: Uint8Array[] = [];
  let failure: NodeJS.ErrnoException | undefined;
  let ended = false;
  let wake = () => {};
  stream.on("data", (chunk: Uint8Array) => unpacked.push(chunk));
  stream.on("error", (error) => {
    failure = error;
    wake();
  });
  stream.on("end", () => {
    ended = true;
    wake();
  });
  const finished = (start: (done: () => void) => void) =>
    new Promise<void>((resolve) => {
      wake = resolve;
      start(resolve);
    });
  try {
    for (const piece of chunksOf(path, file, packedBytes)) {
      await finished((done) => stream.write(piece, done));
      yield* unpacked.splice(0);
      if (failure || ended) break;
    }
    if (!failure && !ended) {
      await finished(() => stream.end());
      yield* unpacked.splice(0);
    }
  } finally {
    stream.destroy();
  }
  if (!failure) return;
  const { line } = lines;
  if (failure.code === "Z_BUF_ERROR")
    throw new TraceError(`${path}: gzip data ends early ${line === 0 ? "in the first line" : `after line ${line}`}`);
  // Damage may be detected only by the checksum at the end: the message states the last line that was read, not the place.
  throw new TraceError(`${path}: gzip data is damaged${line === 0 ? "" : ` after line ${line}`} (${failure.message})`);
}
