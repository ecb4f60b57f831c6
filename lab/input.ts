import { basename } from "node:path";
import { InputError } from "../core/errors.ts";
import { readTrace, rowOf, type Trace, TraceBuilder, type TraceSource } from "../core/trace/trace.ts";
import { standardInputPath } from "../traces/bytes.ts";
import type { TimeUnit } from "../traces/format.ts";
import { chatSource } from "../traces/generators/chat.ts";
import { openTrace as openSource } from "../traces/open.ts";
import { type Control, throwIfInterrupted, yieldToEvents } from "./control.ts";
import { TraceStream } from "./trace-stream.ts";
import type { ReaderPlugin } from "./user-plugins/kinds.ts";
import { isProgram } from "./user-plugins/plugin-file.ts";
import { guardedValue, loadUserPlugin } from "./user-plugins/user-plugin.ts";

/** Options of reading a trace. */
export interface TraceReading {
  /** A format's name, a plug-in file, or a trace reader; by default the format is detected. */
  readonly format?: string | ReaderPlugin;
  /** Tokens per key, where the format does not fix it. */
  readonly unit?: number;
  /** Unit of the trace's times, where they are numbers; by default the one that the format documents. */
  readonly timeUnit?: TimeUnit;
  /** For text: path of a Hugging Face `tokenizer.json`; by default each byte of the text is a token. */
  readonly tokenizer?: string;
  /** For sessions without a start time: each starts at a random time in [0, `seconds`); by default all start at 0. */
  readonly sessionSpread?: { readonly seconds: number; readonly seed: number };
  /** Most requests that are read. */
  readonly limit?: number;
}

/** How requests out of order are read. */
export interface Sorting {
  /** Sort the requests by arrival, in memory; by default a request out of order is refused. */
  readonly sort?: boolean;
}

/** The reading options among others. */
export const readingOf = ({ format, unit, timeUnit, tokenizer, sessionSpread, limit }: TraceReading): TraceReading => ({
  ...(format !== undefined && { format }),
  ...(unit !== undefined && { unit }),
  ...(timeUnit !== undefined && { timeUnit }),
  ...(tokenizer !== undefined && { tokenizer }),
  ...(sessionSpread !== undefined && { sessionSpread }),
  ...(limit !== undefined && { limit }),
});

/** A trace in memory, with its name, files and format. */
export interface Input {
  /** Short name, derived from the first file's name. */
  readonly name: string;
  readonly files: readonly string[];
  readonly format: string;
  /** Remarks about unusual contents of the trace. */
  readonly notes?: readonly string[];
  readonly trace: Trace;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** A trace in memory, or the paths of its files. */
export type TraceChoice = Input | string | readonly string[];

export const exampleName = "example";

/**
 * Reads trace files, one after the other; without a path, or for "example", the built-in example.
 *
 * @throws InputError, TraceError, Interrupted
 */
export async function openTrace(
  paths: string | readonly string[] = [],
  options: TraceReading & Control = {},
): Promise<Input> {
  const { signal } = options;
  const source = await sourceOf(typeof paths === "string" ? [paths] : paths, options, signal);
  const name = nameOf(source);
  const trace = await readTrace(watched(source, name, options), options.limit).catch((error: unknown) => {
    throwIfInterrupted(signal);
    throw error;
  });
  const { files, format } = source;
  const notes = source.notes?.() ?? [];
  for (const text of notes) options.note?.(text);
  return {
    ...{ name, files, format, notes, trace },
    ...{ inputTokens: sum(trace.inputTokens), outputTokens: sum(trace.outputTokens) },
  };
}

/**
 * The trace of these paths, or its first `limit` requests, to be read batch by batch.
 *
 * @throws InputError, TraceError; Interrupted also while batches are read
 */
export async function openTraceSource(
  paths: readonly string[],
  options: TraceReading & Sorting & Control,
): Promise<TraceSource> {
  const { limit, signal, note } = options;
  const source = await sourceOf(paths, options, signal);
  const read = watched(source, nameOf(source), options);
  return {
    ...read,
    async *batches() {
      try {
        yield* limited(read, limit);
      } catch (error) {
        throwIfInterrupted(signal);
        throw error;
      }
      for (const text of source.notes?.() ?? []) note?.(text);
    },
  };
}

async function* limited(source: TraceSource, limit = Number.POSITIVE_INFINITY): AsyncGenerator<Trace> {
  let left = limit;
  for await (const batch of source.batches()) {
    if (batch.requestCount >= left) {
      const builder = new TraceBuilder(batch.unitTokens, batch.distinctKeys, batch);
      for (let r = 0; r < left; r++) builder.add(rowOf(batch, r));
      yield builder.take();
      return;
    }
    left -= batch.requestCount;
    yield batch;
  }
}

/**
 * The trace itself, or the one that is read from these paths.
 *
 * @throws InputError for a trace of lengths, unless `lengths` allows it: it has no content that a cache could store
 */
export async function opened(
  source: TraceChoice,
  options: TraceReading & Control,
  { lengths = false } = {},
): Promise<Input> {
  const input = typeof source === "object" && "trace" in source ? source : await openTrace(source, options);
  if (input.trace.lengthsOnly && !lengths) throw new InputError(lengthsOnly(input));
  return input;
}

/** As `opened`, to be read batch by batch; a trace in memory is one batch. */
export async function streamed(
  source: TraceChoice,
  options: TraceReading & Control,
  allowed: { readonly lengths?: boolean } = {},
): Promise<TraceStream> {
  if (typeof source === "object" && "trace" in source) {
    const input = await opened(source, options, allowed);
    return TraceStream.of(input.trace, input);
  }
  const { limit, signal, note, progress } = options;
  const found = await sourceOf(typeof source === "string" ? [source] : source, options, signal);
  const { files, format, content } = found;
  const name = nameOf(found);
  if (content === "lengths" && !allowed.lengths) throw new InputError(lengthsOnly({ name, format, files }));
  progress?.({ doing: `reading ${name}`, done: 0 });
  let noted = 0;
  const read = async function* () {
    try {
      yield* found.batches();
    } finally {
      const notes = found.notes?.() ?? [];
      for (; noted < notes.length; noted++) note?.(notes[noted]);
    }
  };
  return new TraceStream({ name, files, format, read }, limit, signal);
}

function lengthsOnly({ name, format, files }: Pick<Input, "name" | "format" | "files">): string {
  return (
    `${name}: ${format} traces have lengths only, without content that a cache could find again: ` +
    `--target sim --index none serves them, kvlab trace generate --like ${files[0]} makes a trace with content`
  );
}

/** @throws InputError if an option does not apply to the trace. */
async function sourceOf(
  paths: readonly string[],
  { format, unit, timeUnit, tokenizer, sessionSpread, sort }: TraceReading & Sorting,
  signal: AbortSignal | undefined,
): Promise<TraceSource> {
  if (paths.length === 0 || paths.includes(exampleName)) {
    if (paths.length > 1)
      throw new InputError(`"${exampleName}" is the built-in trace and cannot be combined with files`);
    if (format !== undefined)
      throw new InputError("--format needs a trace file; the built-in example has a fixed format");
    if (unit !== undefined) throw new InputError("--unit needs a trace file; the built-in example has a fixed unit");
    if (timeUnit !== undefined) throw new InputError("--time-unit needs a trace file");
    if (sessionSpread !== undefined) throw new InputError("--session-spread needs a trace file");
    if (tokenizer !== undefined) throw new InputError("--tokenizer needs a trace file");
    return chatSource();
  }
  const options = {
    ...(typeof format === "string" && { format }),
    ...(unit !== undefined && { unitTokens: unit }),
    ...(timeUnit !== undefined && { timeUnit }),
    ...(tokenizer !== undefined && { tokenizer }),
    ...(sessionSpread !== undefined && { sessionSpread }),
    ...(sort !== undefined && { sort }),
    signal,
  };
  if (paths.includes("")) throw new InputError("a TRACE is empty, expected a file");
  try {
    const reader = await readerOf(format);
    if (reader) return { content: "blocks", ...reader.open(paths, options), format: reader.name, files: paths };
    return await openSource(paths, options);
  } catch (error) {
    throwIfInterrupted(signal);
    // The reader's message names its own option.
    if (!(error instanceof InputError)) throw error;
    const options = {
      ...{ "unit tokens": "--unit", "time unit": "--time-unit" },
      ...{ tokenizer: "--tokenizer", "session spread": "--session-spread" },
    };
    const [own, option] = Object.entries(options).find(([name]) => error.message.startsWith(`${name} is `)) ?? [];
    throw own === undefined ? error : new InputError(option + error.message.slice(own.length));
  }
}

/** The user's reader, if the format is one. */
async function readerOf(format: TraceReading["format"]): Promise<ReaderPlugin | undefined> {
  if (typeof format === "object") return guardedValue("reader", format);
  return format !== undefined && isProgram(format) ? await loadUserPlugin("reader", format) : undefined;
}

function nameOf({ files }: TraceSource): string {
  if (files.length === 0) return exampleName;
  const first = basename(files[0] === standardInputPath ? "stdin" : files[0])
    .replace(/\.gz$/, "")
    .replace(/\.[a-z]+$/i, "");
  return files.length === 1 ? first : `${first}+${files.length - 1}`;
}

/** The source with progress reports and cancellation. */
function watched(source: TraceSource, name: string, { progress, signal }: Control): TraceSource {
  return {
    ...source,
    async *batches() {
      let done = 0;
      const doing = `reading ${name}`;
      progress?.({ doing, done });
      for await (const batch of source.batches()) {
        await yieldToEvents(signal);
        done += batch.requestCount;
        progress?.({ doing, done });
        yield batch;
      }
    },
  };
}

function sum(column: Uint32Array): number {
  let total = 0;
  for (const value of column) total += value;
  return total;
}
