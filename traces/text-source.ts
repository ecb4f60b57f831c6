import { InputError } from "../core/errors.ts";
import type { Trace, TraceRow, TraceSource } from "../core/trace/trace.ts";
import { Notes, type OpenTraceOptions } from "./format.ts";
import { fileRecords, type JsonRecord } from "./json-records.ts";
import { withRateNotes } from "./rates.ts";
import { rowBatches } from "./text-requests.ts";
import { openTokenizer, type TextTokenizer } from "./tokenize.ts";

/** The context in which the requests of a text trace are read. */
export interface TextReading {
  readonly files: readonly string[];
  readonly tokenizer: TextTokenizer;
  readonly notes: Notes;
  /** The JSON objects of a file. */
  records(file: string): AsyncGenerator<JsonRecord>;
  /** The unit of the times is certain, because they are Unix times: an implausible rate of requests is not noted. */
  confirmTimes(): void;
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
      let areTimesCertain = false;
      const rateNotes = new Notes();
      const reading = {
        ...{ files, tokenizer, notes },
        records: (file: string) => fileRecords(file, signal),
        confirmTimes: () => {
          areTimesCertain = true;
        },
      };
      yield* withRateNotes(rowBatches(rows(reading)), files, rateNotes, "timeUnit");
      if (!areTimesCertain) for (const text of rateNotes.all()) notes.add(text);
    },
  };
}
