import { InputError, TraceError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import type { TraceSource } from "../core/trace/trace.ts";
import { type Field, JsonLineScanner } from "./json-lines.ts";
import { lineBlocks } from "./lines.ts";
import { mooncakeFields, mooncakeSource } from "./mooncake.ts";
import { tokenIdsFields, tokenIdsSource } from "./token-ids.ts";

export interface OpenTraceOptions {
  /** Name of the format; by default it is detected from the fields of the first line. */
  readonly format?: string;
  /** Tokens per key, where the format does not fix it. */
  readonly unitTokens?: number;
  /** Once aborted, reading a batch throws its reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface TraceFormat {
  /** The value of `--format`. */
  readonly name: string;
  /** One line: its contents. */
  readonly about: string;
  /** The paper or project that it comes from. */
  readonly source: string;
  readonly fields: Readonly<Record<string, Field>>;
  /** Fields of a similar format: a file that has one of them is not of this format. */
  readonly foreignFields: readonly string[];
  open(files: readonly string[], options: OpenTraceOptions): TraceSource;
}

/** All trace formats. */
export const traceFormats: readonly TraceFormat[] = [
  {
    name: "mooncake",
    about: "JSON lines: timestamp (ms), lengths and the content ids of 512-token blocks",
    source: "Mooncake (FAST '25), github.com/kvcache-ai/Mooncake",
    fields: mooncakeFields,
    // Qwen-Bailian has the same fields, but seconds instead of milliseconds and blocks of 16.
    foreignFields: ["chat_id", "parent_chat_id"],
    open: (files, { unitTokens, signal }) =>
      mooncakeSource(files, unitTokens === undefined ? { signal } : { unitTokens, signal }),
  },
  {
    name: "token-ids",
    about: "JSON lines: arrival (ns) and the token ids of prompt and output",
    source: "LLMServingSim, github.com/casys-kaist/LLMServingSim",
    fields: tokenIdsFields,
    foreignFields: [],
    open: (files, { unitTokens, signal }) => {
      if (unitTokens !== undefined && unitTokens !== 1)
        throw new InputError(`unit tokens is ${unitTokens}, expected 1: the keys of a token-ids trace are tokens`);
      return tokenIdsSource(files, signal);
    },
  },
];

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

/** The format of which the first line has the largest share of required fields, which must be more than half. */
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
