import { createWriteStream } from "node:fs";
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import {
  type Nanos,
  type OptionalColumns,
  rowOf,
  type TraceContent,
  type TraceRow,
  type TraceSource,
} from "../core/trace/trace.ts";

/** Columns that a format may lack. `keys` are the ids of a prompt. */
export type WrittenColumn = "keys" | "maxOutputTokens" | Exclude<keyof OptionalColumns, "generatedStart">;

/** The path of a file, or a stream, which is ended after the trace. */
export type TraceTarget = string | Writable;

/** The stream of a target. */
export const streamOf = (target: TraceTarget): Writable =>
  typeof target === "string" ? createWriteStream(target) : target;

/** A format in which traces are written. Its name is that of the reader. */
export interface TraceWriter {
  readonly name: string;
  /** Of file names that select the format, for a trace with one of these contents; undefined if only `--to` does. */
  readonly extension?: string;
  /** Contents that the format has. Others are refused, because the file would mean something else. */
  readonly contents: readonly TraceContent[];
  readonly columns: readonly WrittenColumn[];
  /** Whether a file whose name ends in .gz is compressed. */
  readonly hasGzip: boolean;
  /** Writes a trace, compressed or not. @throws InputError if a request cannot be written in this format */
  write(target: TraceTarget, source: TraceSource, options?: WriteOptions): Promise<void>;
}

export interface WriteOptions {
  readonly isCompressed?: boolean;
  /** The id that is written for a key, in decimal; by default the key itself. */
  readonly idOf?: ((key: number) => string) | undefined;
}

const linesPerChunk = 512;

/** Writes a line for each request of a source. `lineOf` returns it with its line end. */
export async function writeLines(
  target: TraceTarget,
  source: TraceSource,
  { isCompressed = false }: WriteOptions,
  lineOf: (row: TraceRow, index: number, unitTokens: number) => string,
  header = "",
): Promise<void> {
  const lines = Readable.from(chunks(source, lineOf, header));
  const file = streamOf(target);
  if (isCompressed) await pipeline(lines, createGzip(), file);
  else await pipeline(lines, file);
}

async function* chunks(
  source: TraceSource,
  lineOf: (row: TraceRow, index: number, unitTokens: number) => string,
  header: string,
): AsyncGenerator<string> {
  let lines = header;
  let count = 0;
  for await (const batch of source.batches()) {
    for (let r = 0; r < batch.requestCount; r++) {
      lines += lineOf(rowOf(batch, r), count, batch.unitTokens);
      if (++count % linesPerChunk !== 0) continue;
      yield lines;
      lines = "";
    }
  }
  yield lines;
}

/** A JSON object on a line; fields without a value are left out. The values are JSON. */
export function jsonLine(fields: readonly (readonly [name: string, json: string | number | undefined])[]): string {
  return `{${fields.flatMap(([name, json]) => (json === undefined ? [] : `"${name}": ${json}`)).join(", ")}}\n`;
}

/** The columns of a request as the optional fields that all formats of JSON Lines have in kvlab. */
export function optionalJson(row: TraceRow): [name: string, json: string | number | undefined][] {
  return [
    ["max_output_length", row.maxOutputTokens === row.outputTokens ? undefined : row.maxOutputTokens],
    ["session_id", row.session === 0 ? "null" : row.session],
    ["parent", row.parent],
    ["think_ns", row.thinkNs],
    ["priority", row.priority],
    ["retention_ns", row.retentionNs],
    ["namespace", row.namespace],
    ["category", row.category],
    ["marked_tokens", row.markedTokens],
    ["tool", row.tool === 0 ? "null" : row.tool],
    ["next_use_ns", row.nextUseNs],
    ["next_use_steps", row.nextUseSteps],
    ["keep_ns", row.keepNs],
    ["session_end", row.sessionEnd],
  ];
}

export const jsonIds = (ids: ArrayLike<number>, idOf: (key: number) => string = String) =>
  `[${Array.from(ids, idOf).join(", ")}]`;

/** Nanoseconds in a larger unit, exactly and without trailing zeros. */
export function decimal(nanos: Nanos, digits: number): string {
  const unit = 10 ** digits;
  const fraction = String(nanos % unit)
    .padStart(digits, "0")
    .replace(/0+$/, "");
  const whole = String(Math.floor(nanos / unit));
  return fraction === "" ? whole : `${whole}.${fraction}`;
}
