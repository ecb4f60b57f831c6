import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { InputError } from "../../core/errors.ts";
import type { TraceSource } from "../../core/trace/trace.ts";
import { type Generator, generated, type Values } from "../../traces/generators/generator.ts";
import { type GeneratorChoice, generatorNamed } from "../../traces/generators/registry.ts";
import { replaceable } from "../../traces/replace-file.ts";
import { writeMooncake } from "../../traces/write-mooncake.ts";
import { type Control, counting, yieldToEvents } from "../control.ts";
import { checkWritable, removeEmpty } from "../output/run-directory.ts";

/** The file, the generator and its parameters. */
export type GenerateTraceOptions = GeneratorChoice & GeneratedFile & Control;

/** The file that a generated trace is written to. */
export interface GeneratedFile {
  /** The file to write; compressed if its name ends in .gz. */
  readonly out: string;
  /** Replaces the file if it exists. */
  readonly force?: boolean | undefined;
}

/** The command line's name of an option. */
export const dashed = (name: string) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/**
 * Generates a trace and writes it in Mooncake's format. The same options give the same file on every machine.
 *
 * @throws InputError if an option is out of range, or the file exists or cannot be written; Interrupted, without a file
 */
export async function generateTrace(options: GenerateTraceOptions): Promise<{ readonly requests: number }> {
  const { out, force, progress, signal, note: _, generator: name = "chat", ...values } = options;
  const generator = generatorNamed(name);
  const source = sourceOf(generator, values);
  const requests = values.requests ?? generator.parameters.requests.default;
  await writeTrace(source, requests, { out, force }, { progress, signal });
  return { requests };
}

/** Writes a trace of this many requests. @throws InputError, Interrupted */
export async function writeTrace(
  source: TraceSource,
  requests: number,
  { out, force }: GeneratedFile,
  control: Control,
): Promise<void> {
  await checkWritable(out, dirname(out));
  await replaceable(out);
  if (existsSync(out) && !force) throw new InputError(`${out}: already exists; --force replaces it`);
  const folder = resolve(dirname(out));
  const made = await mkdir(folder, { recursive: true });
  try {
    await writeMooncake(watched(source, requests, control), out);
  } catch (error) {
    if (made) await removeEmpty(folder, made);
    throw error;
  }
}

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
