import { isUtf8 } from "node:buffer";
import { createGunzip } from "node:zlib";
import { TraceError } from "../core/errors.ts";
import { type ByteSource, openBytes, shownPath } from "./bytes.ts";
import { refuseUtf16 } from "./encoding.ts";

const chunkBytes = 1 << 20;
/** Compressed bytes per call of zlib: deflate expands at most 1,032 times, so this bounds the memory. */
const packedBytes = 1 << 15;
const longestLineBytes = 1 << 28;
const newline = 10;
/** The end of the current line while no scanner has reached it. */
const notFound = -2;
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
  /** The same bytes, to read several at once. */
  view: DataView = new DataView(new ArrayBuffer(0));
  /** The current line is `bytes[start .. end)`. */
  start = 0;
  /** Number of the current line, from 1. */
  line = 0;
  #end = -1;
  #filled = 0;
  #lastIsWhole = true;

  constructor(file: string) {
    this.file = file;
  }

  /** Moves to the next line; false when the block has no more. */
  next(): boolean {
    const start = this.end + 1;
    if (start >= this.#filled) return false;
    this.start = start;
    this.#end = notFound;
    this.line++;
    return true;
  }

  /** End of the current line. It is searched for unless a scanner has found it. */
  get end(): number {
    if (this.#end === notFound) this.#end = this.bytes.indexOf(newline, this.start);
    return this.#end;
  }

  /** The scanner of the current line has reached its line end, which is at `end`. */
  endsAt(end: number): void {
    this.#end = end;
  }

  /** False only for the last line of a file that does not end with a line end. */
  get terminated(): boolean {
    return this.#lastIsWhole || this.end < this.#filled;
  }

  /** The current line as text. */
  text(): string {
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset + this.start, this.end - this.start).toString();
  }

  /** Points at `bytes[0 .. filled)`; line numbers continue. */
  refill(bytes: Uint8Array, filled: number, lastIsWhole: boolean): void {
    if (bytes !== this.bytes) {
      this.bytes = bytes;
      this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    this.#filled = filled;
    this.#lastIsWhole = lastIsWhole;
    this.#end = -1;
  }
}

/**
 * Reads a text file or standard input, plain or gzip (detected from the content), block by block in bounded memory. All
 * blocks are one object, refilled. With `peek`, standard input is read again from its start afterwards.
 *
 * @throws TraceError if the file cannot be read, is empty, begins with 16 MiB of blank lines, is not UTF-8 text, or its
 * gzip data is damaged; the signal's reason once it is aborted
 */
export async function* lineBlocks(path: string, signal?: AbortSignal, peek = false): AsyncGenerator<LineBlock> {
  const source = await openBytes(path, { peek, signal });
  try {
    yield* blocksOf(shownPath(path), source, signal);
  } finally {
    await source.close();
  }
}

async function* blocksOf(path: string, source: ByteSource, signal?: AbortSignal): AsyncGenerator<LineBlock> {
  const lines = new LineBlock(path);
  let buffer = new Uint8Array(2 * chunkBytes + 1);
  // buffer   [0 ... kept)          [kept ... filled)      + 1 byte for the line end after a last line without one
  // content  start of a line       bytes just read
  let kept = 0;
  let any = false;
  let blankBytes = 0;
  for await (const chunk of unpackedChunks(path, source, lines)) {
    if (signal) await nextTurn(signal);
    if (blankBytes >= 0) blankBytes = chunk.some(isInk) ? -1 : blankBytes + chunk.length;
    if (blankBytes > mostBlankBytes)
      throw new TraceError(`${path}: the first ${mostBlankBytes >> 20} MiB are blank lines, expected a trace`);
    if (!any) refuseUtf16(path, chunk);
    if (!any && hasByteOrderMark(chunk)) chunk.fill(0x20, 0, 3);
    any = true;
    const filled = kept + chunk.length;
    if (filled > longestLineBytes)
      throw new TraceError(`${path}:${lines.line + 1}: the line is longer than 256 MiB, expected a text file of lines`);
    if (filled >= buffer.length) buffer = resized(buffer, kept, filled * 2);
    buffer.set(chunk, kept);
    // A buffer searches several bytes at once, unlike a typed array.
    const zero = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).indexOf(0);
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

/** The bytes of a source, decompressed if they are gzip; each chunk is valid until the next. */
export async function* unpackedChunks(
  path: string,
  source: ByteSource,
  lines: { readonly line: number },
): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(chunkBytes);
  let count = 0;
  // Two bytes identify gzip; standard input may deliver them one by one.
  for (let more = -1; count < 2 && more !== 0; count += more) more = await source.read(buffer.subarray(count));
  if (buffer[0] === 0x1f && buffer[1] === 0x8b) yield* gunzip(path, packedPieces(source, buffer, count), lines);
  else {
    // Sources of files return numbers: a wait for each chunk would cost a turn of the event loop.
    while (count > 0) {
      yield buffer.subarray(0, count);
      // Files are read synchronously: awaiting each chunk would cost a turn of the event loop.
      const next = source.read(buffer);
      count = typeof next === "number" ? next : await next;
    }
  }
}

/** The first bytes, then the others, in pieces of bounded size. */
async function* packedPieces(source: ByteSource, buffer: Uint8Array, first: number): AsyncGenerator<Uint8Array> {
  for (let count = first; count > 0; count = await source.read(buffer))
    for (let at = 0; at < count; at += packedBytes) yield buffer.subarray(at, Math.min(at + packedBytes, count));
}

/**
 * Calls zlib directly, chunk by chunk: a stream would discard the data decompressed before an error, and with it the line
 * number at which the data ends.
 */
async function* gunzip(
  path: string,
  pieces: AsyncIterable<Uint8Array>,
  lines: { readonly line: number },
): AsyncGenerator<Uint8Array> {
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
    for await (const piece of pieces) {
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
