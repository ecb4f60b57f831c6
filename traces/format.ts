import type { TraceSource } from "../core/trace/trace.ts";
import type { Field } from "./json-lines.ts";

/** The options that a trace reader is opened with. */
export interface OpenTraceOptions {
  /** Name of the format; by default it is detected from the fields of the first line. */
  readonly format?: string;
  /** Tokens per key, where the format does not fix it. */
  readonly unitTokens?: number;
  /** Once aborted, reading a batch throws its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** A trace reader. To add one, write a file that exports a `TraceFormat`, and add a line to `formats.ts`. */
export interface TraceFormat {
  /** The value of `--format`. */
  readonly name: string;
  /** One line that describes what the format contains. */
  readonly about: string;
  /** The paper or project that it comes from. */
  readonly source: string;
  readonly fields: Readonly<Record<string, Field>>;
  /** Fields of a similar format: a file that has one of them is not of this format. */
  readonly foreignFields: readonly string[];
  /** @throws InputError if an option is invalid for this format. */
  open(files: readonly string[], options: OpenTraceOptions): TraceSource;
}
