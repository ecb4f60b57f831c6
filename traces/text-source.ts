import { InputError } from "../core/errors.ts";
import type { Trace, TraceRow, TraceSource } from "../core/trace/trace.ts";
import { openBytes, shownPath } from "./bytes.ts";
import { Notes, type OpenTraceOptions } from "./format.ts";
import { type JsonRecord, jsonRecords } from "./json-records.ts";
import { withRateNotes } from "./rates.ts";
import { tokenBatches } from "./text-requests.ts";
import { openTokenizer, type TextTokenizer } from "./tokenize.ts";

/** The context in which the requests of a text trace are read. */
export interface TextReading {
  readonly files: readonly string[];
  readonly tokenizer: TextTokenizer;
  readonly notes: Notes;
  /** The JSON objects of a file. */
  records(file: string): AsyncGenerator<JsonRecord>;
}

/** A trace of token ids from files of text. @throws InputError if an option is invalid for text */
export function textSource(
  format: string,
  files: readonly string[],
  { unitTokens, tokenizer: path, signal }: OpenTraceOptions,
  rows: (reading: TextReading) => AsyncIterable<TraceRow>,
): TraceSource {
  if (unitTokens !== undefined && unitTokens !== 1)
    throw new InputError(`unit tokens is ${unitTokens}, expected 1: the keys of a ${format} trace are tokens`);
  const notes = new Notes();
  return {
    ...{ format, files, content: "tokens", notes: notes.all },
    async *batches(): AsyncGenerator<Trace> {
      const tokenizer = await openTokenizer(path);
      const reading = { files, tokenizer, notes, records: (file: string) => recordsOf(file, signal) };
      yield* withRateNotes(tokenBatches(rows(reading)), files, notes);
    },
  };
}

/** @throws TraceError if the file has no object */
async function* recordsOf(file: string, signal: AbortSignal | undefined): AsyncGenerator<JsonRecord> {
  const source = await openBytes(file, { signal });
  try {
    yield* jsonRecords(shownPath(file), source, signal);
  } finally {
    await source.close();
  }
}
