import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { InputError } from "../../core/errors.ts";
import type { TraceSource } from "../../core/trace/trace.ts";
import { type ChatOptions, chatDefaults, chatSource } from "../../traces/generate.ts";
import { replaceable, writeMooncake } from "../../traces/write-mooncake.ts";
import { type Control, counting, yieldToEvents } from "../control.ts";
import { checkWritable, removeEmpty } from "../output/run-directory.ts";

/** The file, and the parameters of the chat generator. */
export interface GenerateTraceOptions extends Partial<ChatOptions>, Control {
  /** The file to write; compressed if its name ends in .gz. */
  readonly out: string;
  /** Replaces the file if it exists. */
  readonly force?: boolean | undefined;
}

/** The options of the chat generator. */
export const chatOptionNames = Object.keys(chatDefaults) as (keyof ChatOptions)[];

/** The command line's name of an option. */
export const dashed = (name: string) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/**
 * Generates chat sessions and writes them as a trace in Mooncake's format. The same options give the same file on every machine.
 *
 * @throws InputError if an option is out of range, or the file exists or cannot be written; Interrupted, without a file
 */
export async function generateTrace(options: GenerateTraceOptions): Promise<{ readonly requests: number }> {
  const { out, force, requests = chatDefaults.requests } = options;
  const source = chatOf(options);
  await checkWritable(out, dirname(out));
  await replaceable(out);
  if (existsSync(out) && !force) throw new InputError(`${out}: already exists; --force replaces it`);
  const folder = resolve(dirname(out));
  const made = await mkdir(folder, { recursive: true });
  try {
    await writeMooncake(watched(source, requests, options), out);
  } catch (error) {
    if (made) await removeEmpty(folder, made);
    throw error;
  }
  return { requests };
}

/** @throws InputError with the command line's name of the option. */
function chatOf(options: GenerateTraceOptions): TraceSource {
  const given = chatOptionNames.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]);
  try {
    return chatSource(Object.fromEntries(given));
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    const name = chatOptionNames.find((option) => error.message.startsWith(`${option} `));
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
