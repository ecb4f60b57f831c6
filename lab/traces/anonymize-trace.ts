import { randomBytes } from "node:crypto";
import { InputError } from "../../core/errors.ts";
import { anonymized } from "../../traces/anonymize.ts";
import type { Control } from "../control.ts";
import { openTraceSource, type TraceReading } from "../input.ts";
import { type WrittenTrace, writersOf, writeTrace } from "./convert-trace.ts";
import { type OutputFile, outputName, writeOutput } from "./output-file.ts";

/** How a trace is read, and the file to write. */
export interface AnonymizeTraceOptions extends TraceReading, OutputFile, Control {
  /** Tokens per content id; a multiple of the trace's unit. */
  readonly blockSize: number;
  /** Secret of the ids, or "random": a new one that is stored nowhere. Default: random. */
  readonly salt?: string;
  /** Format to write: mooncake or parquet; by default the one of the file's extension, for a stream mooncake. */
  readonly to?: string;
}

const saltBytes = 32;

/**
 * Writes a trace with salted content ids instead of its content. Lengths and times are kept. `kvlab trace anonymize`.
 *
 * @throws InputError if the trace has no content or the file cannot be written; TraceError naming file and line;
 * Interrupted, without a file
 */
export async function anonymizeTrace(
  paths: string | readonly string[],
  options: AnonymizeTraceOptions,
): Promise<WrittenTrace> {
  const { out, to, blockSize: blockTokens, salt = "random" } = options;
  if (!(Number.isInteger(blockTokens) && blockTokens >= 2 && blockTokens < 2 ** 31))
    throw new InputError(`--block-size is ${blockTokens}, expected a whole number from 2 to ${2 ** 31 - 1}`);
  if (salt === "") throw new InputError("--salt is empty, expected a text or random");
  const files = typeof paths === "string" ? [paths] : paths;
  const writer = writersOf(out, to).find(({ name }) => name === "mooncake" || name === "parquet");
  if (!writer)
    throw new InputError(
      `${outputName(out)}: anonymized traces have content ids, expected the format mooncake or parquet`,
    );
  let written: WrittenTrace | undefined;
  await writeOutput(options, files, async (target) => {
    const source = await openTraceSource(files, options);
    const secret = salt === "random" ? randomBytes(saltBytes) : salt;
    const { source: anonymous, idOf } = anonymized(source, { blockTokens, salt: secret });
    written = await writeTrace(anonymous, writer, target, out, idOf).catch((error: unknown) => {
      // The message names the library's option.
      if (!(error instanceof InputError)) throw error;
      throw new InputError(error.message.replace(/^block size is/, "--block-size is"));
    });
  });
  return written!;
}
