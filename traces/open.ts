import { InputError, TraceError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import type { TraceSource } from "../core/trace/trace.ts";
import type { OpenTraceOptions, TraceFormat } from "./format.ts";
import * as formats from "./formats.ts";
import { JsonLineScanner } from "./json-lines.ts";
import { lineBlocks } from "./lines.ts";

/** All trace formats, by name. */
export const traceFormats: readonly TraceFormat[] = Object.values(formats);

const knownFormats = `known formats: ${traceFormats.map(({ name }) => name).join(", ")}`;

/**
 * Opens a trace in one or several files, which are read in sequence.
 *
 * @throws InputError if there is no such format or no file; TraceError if a file cannot be read or is of no known format.
 */
export async function openTrace(paths: readonly string[], options: OpenTraceOptions = {}): Promise<TraceSource> {
  if (paths.length === 0) throw new InputError("no trace file given");
  if (options.format !== undefined) return formatNamed(options.format).open(paths, options);
  const { signal } = options;
  const first = await recognise(paths[0], signal);
  for (const path of paths.slice(1)) {
    const { name } = await recognise(path, signal);
    if (name !== first.name)
      throw new TraceError(`${path}: the format is ${name}, expected ${first.name} as in ${paths[0]}`);
  }
  return first.open(paths, options);
}

function formatNamed(name: string): TraceFormat {
  const format = traceFormats.find((known) => known.name === name);
  if (format) return format;
  const names = traceFormats.map((known) => known.name);
  const near = nearest(name, names);
  throw new InputError(`unknown format "${name}"${near ? `: did you mean "${near}"?` : ""} (${knownFormats})`);
}

/** The format with the largest share of its required fields in the first line; the share must exceed one half. */
async function recognise(path: string, signal?: AbortSignal): Promise<TraceFormat> {
  const names = await firstFields(path, signal);
  const shares = traceFormats.map(({ fields, foreignFields }) => {
    if (foreignFields.some((name) => names.includes(name))) return 0;
    const required = Object.keys(fields).filter((name) => fields[name].required);
    return required.filter((name) => names.includes(name)).length / required.length;
  });
  const best = Math.max(...shares);
  if (best > 0.5) return traceFormats[shares.indexOf(best)];
  throw new TraceError(
    `${path}: unknown format: the first line has the fields ${names.join(", ") || "(none)"}; ${knownFormats}`,
  );
}

/** Names of the fields of the first line that is not blank. */
async function firstFields(path: string, signal?: AbortSignal): Promise<string[]> {
  for await (const block of lineBlocks(path, signal)) {
    while (block.next()) {
      if (block.end === block.start) continue;
      const text = block.text().trim();
      if (text === "") continue;
      if (!text.startsWith("{")) {
        const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text;
        throw new TraceError(
          `${path}: unknown format: line ${block.line} is ${JSON.stringify(shown)}; ${knownFormats}`,
        );
      }
      const scan = new JsonLineScanner({});
      scan.begin(block);
      const invalid = scan.invalid();
      if (invalid) throw invalid;
      return Object.keys(JSON.parse(text));
    }
  }
  throw new TraceError(`${path}: no requests, only blank lines`);
}
