import type { TraceSource } from "../core/trace/trace.ts";
import type { SampleKind } from "./sample.ts";

export const timeUnits = ["s", "ms", "us", "ns"] as const;
/** Unit of a trace's times. */
export type TimeUnit = (typeof timeUnits)[number];

export const nanosPer: Readonly<Record<TimeUnit, number>> = { s: 1e9, ms: 1e6, us: 1e3, ns: 1 };

/** The options that a trace reader is opened with. Options that a format does not have are refused. */
export interface OpenTraceOptions {
  /** Name of the format; by default it is recognised from the beginning of the first file. */
  readonly format?: string;
  /** Tokens per key, where the format does not fix it. */
  readonly unitTokens?: number;
  /** Unit of the trace's times, where they are numbers; by default the one that the format documents. */
  readonly timeUnit?: TimeUnit;
  /**
   * For text: path of a Hugging Face `tokenizer.json`. By default each byte of the UTF-8 text is a token, with its value as
   * the token id.
   */
  readonly tokenizer?: string;
  /**
   * For sessions without a start time: each starts at a random time in [0, `seconds`), drawn with `seed`. By default all
   * start at 0.
   */
  readonly sessionSpread?: { readonly seconds: number; readonly seed: number };
  /** Requests may be in any order: they are sorted by arrival, in memory. By default a request out of order is refused. */
  readonly sort?: boolean;
  /** Once aborted, reading a batch throws its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** How files of a format begin, from which they are recognised. */
export interface FileShape {
  readonly kinds: readonly SampleKind[];
  /**
   * Fields of the first JSON object, with the notation `requests[].prompt` for fields of objects within it, or columns of the
   * CSV header. Several names in one item are alternatives.
   */
  readonly needs: readonly (string | readonly string[])[];
  /** Fields of a similar format: a file that has one of them is not of this format. */
  readonly foreign?: readonly string[];
}

/** A trace reader. To add one, write a file that exports a `TraceFormat`, and add a line to `formats.ts`. */
export interface TraceFormat {
  /** The value of `--format`. */
  readonly name: string;
  /** One line that describes what the format contains. */
  readonly about: string;
  /** The paper or project that it comes from. */
  readonly source: string;
  readonly shape: FileShape;
  /** The options that apply to the format. */
  readonly options: readonly ("unitTokens" | "timeUnit" | "tokenizer" | "sessionSpread" | "sort")[];
  /** @throws InputError if an option is invalid for this format. */
  open(files: readonly string[], options: OpenTraceOptions): TraceSource;
}

/** Remarks about a trace that is read although something in it is unusual; see `TraceSource.notes`. */
export class Notes {
  readonly #texts: string[] = [];
  readonly all = (): readonly string[] => this.#texts;

  add(text: string): void {
    if (!this.#texts.includes(text)) this.#texts.push(text);
  }
}
