import { createWriteStream } from "node:fs";
import { lstat, realpath, rename, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { InputError } from "../core/errors.ts";
import { type Nanos, rowOf, type Trace, type TraceRow, type TraceSource } from "../core/trace/trace.ts";

const linesPerChunk = 512;
/** Unit in tokens that readers of the format assume by default. */
const usualUnitTokens = 512;

/**
 * Writes a trace of content ids in the Mooncake format, as gzip if the name ends in `.gz`. Columns that the format does not
 * have become extra fields, which other readers ignore and the `mooncake` format reads back. The file is renamed to its final
 * name when it is complete.
 *
 * @throws InputError if the keys are token ids, or the file cannot be written.
 */
export async function writeMooncake(trace: Trace | TraceSource, path: string): Promise<void> {
  const batches = "batches" in trace ? trace.batches() : [trace];
  const target = await replaceable(path);
  const unfinished = `${target}.unfinished-${process.pid}`;
  try {
    const lines = Readable.from(chunks(batches));
    const file = createWriteStream(unfinished);
    if (path.endsWith(".gz")) await pipeline(lines, createGzip(), file);
    else await pipeline(lines, file);
    await rename(unfinished, target);
  } catch (error) {
    await rm(unfinished, { force: true });
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    throw new InputError(`${path}: cannot be written (${code})`);
  }
}

/**
 * The target of a path, with links resolved. A device or pipe is refused, as it would be replaced instead of written to.
 *
 * @throws InputError if the path exists and is not a regular file.
 */
export async function replaceable(path: string): Promise<string> {
  const target = await realpath(path).catch(() => path);
  const found = await lstat(target).catch(() => undefined);
  if (found && !found.isFile()) throw new InputError(`${path}: is not a regular file, so it is not replaced`);
  return target;
}

async function* chunks(batches: AsyncIterable<Trace> | Iterable<Trace>): AsyncGenerator<string> {
  let lines = "";
  let count = 0;
  for await (const batch of batches) {
    if (batch.unitTokens === 1)
      throw new InputError("a trace of token ids cannot be written as mooncake, expected content ids of blocks");
    for (let r = 0; r < batch.requestCount; r++) {
      const request = requestFields(rowOf(batch, r));
      const blockSize =
        count === 0 && batch.unitTokens !== usualUnitTokens ? `, "block_size": ${batch.unitTokens}` : "";
      lines += `{${request}${blockSize}}\n`;
      if (++count % linesPerChunk !== 0) continue;
      yield lines;
      lines = "";
    }
  }
  yield lines;
}

/** The fields of one request, in the order and spacing of the published files. */
function requestFields(row: TraceRow): string {
  const { session } = row;
  const fields: [name: string, text: string | number | undefined][] = [
    ["timestamp", milliseconds(row.arrivalNs)],
    ["input_length", row.inputTokens],
    ["output_length", row.outputTokens],
    ["hash_ids", `[${Array.from(row.keys).join(", ")}]`],
    ["max_output_length", row.maxOutputTokens === row.outputTokens ? undefined : row.maxOutputTokens],
    ["session_id", session === 0 ? "null" : session],
    ["parent", row.parent],
    ["think_ns", row.thinkNs],
    ["priority", row.priority],
    ["retention_ns", row.retentionNs],
    ["namespace", row.namespace],
    ["category", row.category],
    ["marked_tokens", row.markedTokens],
  ];
  return fields.flatMap(([name, text]) => (text === undefined ? [] : `"${name}": ${text}`)).join(", ");
}

/** Nanoseconds as milliseconds, exactly and without trailing zeros. */
function milliseconds(nanos: Nanos): string {
  const whole = Math.floor(nanos / 1e6);
  const fraction = String(nanos % 1e6)
    .padStart(6, "0")
    .replace(/0+$/, "");
  return fraction === "" ? String(whole) : `${whole}.${fraction}`;
}
