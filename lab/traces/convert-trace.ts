import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import type { Trace, TraceContent, TraceSource } from "../../core/trace/trace.ts";
import type { TraceTarget, TraceWriter, WrittenColumn } from "../../traces/writer.ts";
import { traceWriters } from "../../traces/writers.ts";
import type { Control } from "../control.ts";
import { openTraceSource, type Sorting, type TraceReading } from "../input.ts";
import { type OutputFile, outputName, writeOutput } from "./output-file.ts";

/** How a trace is read, and the file to write. */
export interface ConvertTraceOptions extends TraceReading, Sorting, OutputFile, Control {
  /**
   * Format to write: parquet, mooncake, token-ids, qwen-bailian or azure; by default the one of the file's extension, for a
   * stream JSON Lines: mooncake or token-ids.
   */
  readonly to?: string;
}

/** A column that requests have and the written format lacks. */
export interface LostColumn {
  /** Its name, as in the Parquet schema. */
  readonly column: string;
  /** Number of requests that have a value in it. */
  readonly requests: number;
}

/** What was written. */
export interface WrittenTrace {
  /** Path of the file; "-" for a stream. */
  readonly out: string;
  readonly format: string;
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Columns that the file does not have. */
  readonly lost: readonly LostColumn[];
}

/**
 * Converts a trace to another format, request by request. `kvlab trace convert`.
 *
 * @throws InputError if the format lacks the trace's content or the file cannot be written; TraceError naming file and line;
 * Interrupted, without a file
 */
export async function convertTrace(
  paths: string | readonly string[],
  options: ConvertTraceOptions,
): Promise<WrittenTrace> {
  const { out, to } = options;
  const files = typeof paths === "string" ? [paths] : paths;
  const candidates = writersOf(out, to);
  let written: WrittenTrace | undefined;
  await writeOutput(options, files, async (target) => {
    const source = await openTraceSource(files, options);
    written = await writeTrace(source, writerFor(source.content, candidates), target, out);
  });
  return written!;
}

/** Writes a source to a target and counts requests and lost columns; `out` is the final name, or the stream. */
export async function writeTrace(
  source: TraceSource,
  writer: TraceWriter,
  target: TraceTarget,
  out: OutputFile["out"],
  idOf?: (key: number) => string,
): Promise<WrittenTrace> {
  const counts = { requests: 0, inputTokens: 0, outputTokens: 0 };
  const lost = new Map<WrittenColumn, number>();
  const counting: TraceSource = {
    ...source,
    async *batches() {
      for await (const batch of source.batches()) {
        counts.requests += batch.requestCount;
        for (let r = 0; r < batch.requestCount; r++) {
          counts.inputTokens += batch.inputTokens[r];
          counts.outputTokens += batch.outputTokens[r];
        }
        for (const [name, present] of columnsOf(batch)) {
          if (writer.columns.includes(name)) continue;
          let requests = lost.get(name) ?? 0;
          for (let r = 0; r < batch.requestCount; r++) if (present(r)) requests++;
          if (requests > 0) lost.set(name, requests);
        }
        yield batch;
      }
      if (counts.requests === 0) throw new InputError(`${source.files.join(", ")}: no requests`);
    },
  };
  await writer.write(target, counting, { isCompressed: isGzip(out), idOf });
  return {
    ...{ out: outputName(out), format: writer.name, ...counts },
    lost: [...lost].map(([name, requests]) => ({ column: columnNames[name], requests })),
  };
}

const isGzip = (out: OutputFile["out"]) => typeof out === "string" && out.endsWith(".gz");

/** For each column that a format may lack, whether a request has a value in it. */
function columnsOf(batch: Trace): [WrittenColumn, (r: number) => boolean][] {
  const { keyStart, maxOutputTokens, outputTokens, optional } = batch;
  const { generatedStart: generated } = optional;
  const columns: [WrittenColumn, (r: number) => boolean][] = [
    ["keys", (r) => keyStart[r + 1] > keyStart[r]],
    ["maxOutputTokens", (r) => maxOutputTokens[r] !== outputTokens[r]],
  ];
  for (const name of numberColumns) {
    const values = optional[name];
    const none = name === "parent" ? -1 : 0;
    if (values) columns.push([name, (r) => values[r] !== none]);
  }
  if (generated) columns.push(["generatedKeys", (r) => generated[r + 1] > generated[r]]);
  return columns;
}

const numberColumns = [
  ...(["namespace", "session", "parent", "thinkNs"] as const),
  ...(["priority", "retentionNs", "category", "markedTokens"] as const),
  ...(["tool", "nextUseNs", "nextUseSteps", "keepNs", "sessionEnd"] as const),
] as const satisfies WrittenColumn[];

const columnNames: Readonly<Record<WrittenColumn, string>> = {
  keys: "keys",
  maxOutputTokens: "max_output_tokens",
  generatedKeys: "generated_keys",
  namespace: "namespace",
  session: "session",
  parent: "parent",
  thinkNs: "think_ns",
  priority: "priority",
  retentionNs: "retention_ns",
  category: "category",
  markedTokens: "marked_tokens",
  tool: "tool",
  nextUseNs: "next_use_ns",
  nextUseSteps: "next_use_steps",
  keepNs: "keep_ns",
  sessionEnd: "session_end",
};

const formatList = traceWriters.map(({ name }) => name).join(", ");

/** The writers of a format, or of the file's extension, of which the trace's content selects one. @throws InputError */
export function writersOf(out: OutputFile["out"], to: string | undefined): readonly TraceWriter[] {
  const found = to === undefined ? byExtension(out) : traceWriters.filter(({ name }) => name === to);
  if (to !== undefined && found.length === 0) {
    const near = nearest(
      to,
      traceWriters.map(({ name }) => name),
    );
    throw new InputError(`--to is "${to}"${near ? `: did you mean "${near}"?` : ""}, expected one of ${formatList}`);
  }
  if (found.length === 0)
    throw new InputError(
      `${outputName(out)}: the extension does not select a format (${extensionList}); --to FORMAT does: ${formatList}`,
    );
  if (isGzip(out) && found.every(({ hasGzip }) => !hasGzip))
    throw new InputError(`${outputName(out)}: Parquet is compressed itself, expected a name without .gz`);
  return found;
}

const extensionList = traceWriters
  .flatMap(({ name, extension }) => (extension === undefined ? [] : `${extension}: ${name}`))
  .join(", ");

function byExtension(out: OutputFile["out"]): TraceWriter[] {
  const name = typeof out === "string" ? out.replace(/\.gz$/, "") : ".jsonl";
  return traceWriters.filter(({ extension }) => extension !== undefined && name.endsWith(extension));
}

/** @throws InputError if no writer has this content */
export function writerFor(content: TraceContent, writers: readonly TraceWriter[]): TraceWriter {
  const found = writers.find(({ contents }) => contents.includes(content));
  if (found) return found;
  const formats = writers.map(
    ({ name, contents }) => `${name} has ${contents.map((each) => contentNames[each]).join(", ")}`,
  );
  throw new InputError(`the trace has ${contentNames[content]}, but ${formats.join(" and ")}; ${otherWay[content]}`);
}

const contentNames: Readonly<Record<TraceContent, string>> = {
  blocks: "content ids of blocks",
  tokens: "token ids",
  lengths: "lengths only",
};

const otherWay: Readonly<Record<TraceContent, string>> = {
  blocks: "parquet, mooncake and qwen-bailian have content ids",
  tokens: "parquet and token-ids have token ids, and kvlab trace anonymize makes content ids of them",
  lengths: "parquet and azure have lengths only",
};
