import { InputError, TraceError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import type { TraceSource } from "../core/trace/trace.ts";
import { copyStandardInput, standardInputPath } from "./bytes.ts";
import type { FileShape, OpenTraceOptions, TraceFormat } from "./format.ts";
import * as formats from "./formats.ts";
import { type Sample, type SampleKind, sampleOf } from "./sample.ts";

/** All trace formats, by name. */
export const traceFormats: readonly TraceFormat[] = Object.values(formats);

/** A kind of file, for messages and documentation. */
export const kindNames: Readonly<Record<SampleKind, string>> = {
  "json-lines": "JSON Lines",
  "json-object": "a JSON document",
  "json-array": "a JSON array",
  csv: "CSV",
  parquet: "Parquet",
  text: "text",
};

/**
 * Opens a trace in one or several files, which are read in sequence. The path `-` is standard input.
 *
 * @throws InputError if there is no such format or no file, or an option does not apply to the format; TraceError if a file
 * cannot be read or is of no known format.
 */
export async function openTrace(paths: readonly string[], options: OpenTraceOptions = {}): Promise<TraceSource> {
  if (paths.length === 0) throw new InputError("no trace file given");
  if (paths.filter((path) => path === standardInputPath).length > 1)
    throw new InputError("standard input is given twice, expected once");
  if (options.format !== undefined) return opened(formatNamed(options.format), paths, options);
  const { signal } = options;
  const first = recognised(await sampleOf(paths[0], signal));
  for (const path of paths.slice(1)) {
    const { name } = recognised(await sampleOf(path, signal));
    if (name !== first.name)
      throw new TraceError(`${path}: the format is ${name}, expected ${first.name} as in ${paths[0]}`);
  }
  return opened(first, paths, options);
}

const optionNames = { timeUnit: "time unit", tokenizer: "tokenizer", sessionSpread: "session spread" } as const;

/** @throws InputError if an option does not apply to the format */
async function opened(format: TraceFormat, paths: readonly string[], options: OpenTraceOptions): Promise<TraceSource> {
  for (const name of ["timeUnit", "tokenizer"] as const)
    if (options[name] !== undefined && !format.options.includes(name))
      throw new InputError(
        `${optionNames[name]} is ${options[name]}, expected none: it does not apply to ${format.name}`,
      );
  // The metadata are at the end of the file.
  if (format.shape.kinds.includes("parquet")) await copyStandardInput(paths, options.signal);
  const sortable = traceFormats.filter((known) => known.options.includes("sort")).map(({ name }) => name);
  if (options.sort && !format.options.includes("sort"))
    throw new InputError(`--sort does not apply to the format ${format.name}, expected one of ${sortable.join(", ")}`);
  return format.open(paths, options);
}

function formatNamed(name: string): TraceFormat {
  const format = traceFormats.find((known) => known.name === name);
  if (format) return format;
  const names = traceFormats.map((known) => known.name);
  const near = nearest(name, names);
  const hint = near ? `: did you mean "${near}"?` : "";
  throw new InputError(`unknown format "${name}"${hint} (known formats: ${names.join(", ")})`);
}

const alternativesOf = (need: FileShape["needs"][number]) => (typeof need === "string" ? [need] : need);

/** The fields that a file needs and the sample lacks. */
const missingFrom = ({ fields }: Sample, { needs }: FileShape) =>
  needs.filter((need) => !alternativesOf(need).some((name) => fields.includes(name)));

/**
 * The format of which the sample has all fields; of several, the one with the most. If there is none, the format of which it
 * has the largest share, more than one half, so that its reader reports the missing field.
 */
function recognised(sample: Sample): TraceFormat {
  const candidates = traceFormats
    .filter(({ shape }) => shape.kinds.includes(sample.kind))
    .filter(({ shape }) => !shape.foreign?.some((name) => sample.fields.includes(name)))
    .map((format) => {
      const { needs } = format.shape;
      const found = needs.length - missingFrom(sample, format.shape).length;
      return { format, found, share: needs.length === 0 ? 1 : found / needs.length };
    })
    .sort((a, b) => b.share - a.share || b.found - a.found);
  const [best] = candidates;
  if (best !== undefined && best.share > 0.5) return best.format;
  throw new TraceError(unknownFormat(sample));
}

const namesShown = 20;

function listed(names: readonly string[]): string {
  const shown = names.slice(0, namesShown).join(", ");
  return names.length > namesShown ? `${shown} and ${names.length - namesShown} more` : shown || "(none)";
}

/** Kinds of files of one syntax: a JSON array may have the objects of JSON Lines. */
const syntaxOf: Readonly<Record<SampleKind, string>> = {
  "json-lines": "JSON",
  "json-object": "JSON",
  "json-array": "JSON",
  csv: "CSV",
  parquet: "Parquet",
  text: "text",
};

/**
 * Lists the fields that the formats of the file's syntax need, and those that are missing. Formats of which the file has no
 * field are listed only if it has none of any.
 */
function unknownFormat(sample: Sample): string {
  const { path, kind, fields, line, lineNumber } = sample;
  const top = fields.filter((name) => !/[.[]/.test(name));
  const syntax = syntaxOf[kind];
  const found =
    kind === "text"
      ? `line ${lineNumber} is ${JSON.stringify(line)}`
      : kind === "csv"
        ? `line ${lineNumber} has the columns ${listed(fields)}`
        : `${kindNames[kind]} with the fields ${listed(top)}`;
  const known = traceFormats
    .filter(({ shape }) => shape.kinds.some((each) => syntaxOf[each] === syntax))
    .map(({ name, shape }) => ({ name, shape, missing: missingFrom(sample, shape) }))
    .sort((a, b) => a.missing.length / a.shape.needs.length - b.missing.length / b.shape.needs.length);
  const near = known.filter(({ shape, missing }) => missing.length < shape.needs.length);
  const needed = (near.length > 0 ? near : known).map(({ name, shape, missing }) => {
    const file = shape.kinds.includes(kind) ? "" : `${shape.kinds.map((each) => kindNames[each]).join(" or ")} with `;
    return `${name} needs ${file}${shape.needs.map(alternatives).join(", ")}${lacks(sample, shape, missing)}`;
  });
  const expected = needed.length > 0 ? needed.join("; ") : "expected JSON, CSV or Parquet";
  return `${path}: unknown format: ${found}; ${expected}; kvlab trace formats lists all formats`;
}

const alternatives = (need: FileShape["needs"][number]) => alternativesOf(need).join(" or ");

/** The fields that keep a sample from being of the format, in parentheses; empty if it has none of those needed. */
function lacks({ fields }: Sample, { needs, foreign }: FileShape, missing: FileShape["needs"]): string {
  if (missing.length === needs.length) return "";
  if (missing.length > 0) return ` (missing: ${missing.map(alternatives).join(", ")})`;
  const others = foreign?.filter((field) => fields.includes(field)) ?? [];
  return others.length > 0 ? ` (not with ${others.join(", ")})` : "";
}
