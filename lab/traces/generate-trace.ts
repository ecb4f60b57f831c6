import { counted } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import type { TraceSource } from "../../core/trace/trace.ts";
import { type Generator, generated, type Values } from "../../traces/generators/generator.ts";
import { type GeneratorChoice, generatorNamed } from "../../traces/generators/registry.ts";
import { type Control, counting, yieldToEvents } from "../control.ts";
import { type WrittenTrace, writerFor, writersOf, writeTrace } from "./convert-trace.ts";
import { type OutputFile, writeOutput } from "./output-file.ts";

/** The file, the generator and its parameters. */
export type GenerateTraceOptions = GeneratorChoice & GeneratedFile & Control;

/** The file that a generated trace is written to. */
export interface GeneratedFile extends OutputFile {
  /** Format to write: mooncake, parquet or azure; by default the one of the file's extension, or mooncake. */
  readonly to?: string | undefined;
}

/** The command line's name of an option. */
export const dashed = (name: string) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/**
 * Generates a trace and writes it to a file or a stream. The same options give the same file on every machine.
 *
 * @throws InputError if an option is out of range, or the file exists or cannot be written; Interrupted, without a file
 */
export async function generateTrace(options: GenerateTraceOptions): Promise<{ readonly requests: number }> {
  const { out, force, to, progress, signal, note, generator: name = "chat", ...values } = options;
  const generator = generatorNamed(name);
  const source = sourceOf(generator, values);
  const target = { out, force, to, progress, signal, note };
  const { requests } = await writeGenerated(source, values.requests ?? generator.parameters.requests.default, target);
  return { requests };
}

/** Writes a trace of this many requests; each column that the format lacks is a note. @throws InputError, Interrupted */
export async function writeGenerated(
  source: TraceSource,
  requests: number,
  options: GeneratedFile & Control,
): Promise<WrittenTrace> {
  const { out, to } = options;
  const writer = writerFor(source.content, writersOf(out, to ?? defaultFormat(out)));
  let written: WrittenTrace | undefined;
  await writeOutput(options, [], async (target) => {
    written = await writeTrace(watched(source, requests, options), writer, target, out);
  });
  for (const { column, requests } of written!.lost)
    options.note?.(`${written!.format} has no column ${column}, which ${counted(requests, "request")} have`);
  return written!;
}

/** Files of other extensions are Mooncake's JSON Lines. */
const defaultFormat = (out: OutputFile["out"]) =>
  typeof out === "string" && !/\.(parquet|csv)(\.gz)?$/.test(out) ? "mooncake" : undefined;

/** @throws InputError with the command line's name of the option. */
function sourceOf(generator: Generator, values: Partial<Values>): TraceSource {
  try {
    return generated(generator, values);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    const name = Object.keys(generator.parameters).find((option) => error.message.startsWith(`${option} `));
    throw name ? new InputError(dashed(name) + error.message.slice(name.length)) : error;
  }
}

/** The source with progress reports and cancellation. */
function watched(source: TraceSource, requests: number, control: Control): TraceSource {
  return {
    ...source,
    async *batches() {
      const advance = counting(control, "generating", requests);
      for await (const batch of source.batches()) {
        await yieldToEvents(control.signal);
        yield batch;
        advance(batch.requestCount);
      }
    },
  };
}
