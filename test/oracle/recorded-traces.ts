import { existsSync, readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { readTrace, rowOf, type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";

const folder = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces");

/** The folder of arrays, beside that of the recorded traces. */
export const oracleFolder = resolve(folder, "../oracle");
export const hasOracle = existsSync(oracleFolder);

/** Files whose name does not contain the name that arrays use for them. */
const fileOf: Readonly<Record<string, string>> = { mooncake: "conversation_trace" };

/** Name of an array's trace: the file's, with 2 for two tokens an id, and the variant. */
const namePattern = /^(.*?)(2?)(?:-(none|unique|raw|true))?$/;

/** The recorded trace that an array's trace name refers to; undefined if there is none. */
export function fileFor(name: string): string | undefined {
  const [, base] = namePattern.exec(name)!;
  const part = fileOf[base] ?? base;
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => /\.jsonl(\.gz)?$/.test(path) && basename(path).includes(part))
    .sort();
  return files.length === 0 ? undefined : join(folder, files[0]);
}

/**
 * The trace of an array:
 *
 *   NAME          the file
 *   NAME-none     each content id as one token; one output token
 *   NAME-unique   the same, and one unique output token for each block that the output allocates beyond the prompt
 *   NAME2-…       each content id as two tokens
 *   NAME-raw      the file
 *   NAME-true     the file without the content ids of incomplete blocks
 */
export async function traceFor(name: string, file: string): Promise<Trace> {
  const [, , two, variant] = namePattern.exec(name)!;
  const trace = await readTrace(await openTrace([file]));
  if (variant === undefined || variant === "raw") return trace;
  if (variant === "true") return withWholeBlocks(trace);
  return asTokens(trace, two === "2" ? 2 : 1, variant === "unique");
}

function withWholeBlocks(trace: Trace): Trace {
  const builder = new TraceBuilder(trace.unitTokens);
  for (let r = 0; r < trace.requestCount; r++) {
    const row = rowOf(trace, r);
    const keys = trace.keys.subarray(
      trace.keyStart[r],
      trace.keyStart[r] + Math.floor(row.inputTokens / trace.unitTokens),
    );
    builder.add({ ...row, keys });
  }
  return builder.take();
}

function asTokens(trace: Trace, perId: number, hasOutput: boolean): Trace {
  const builder = new TraceBuilder(1);
  let unique = trace.distinctKeys * perId;
  for (let r = 0; r < trace.requestCount; r++) {
    const { arrivalNs, inputTokens, outputTokens } = rowOf(trace, r);
    const ids = trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]);
    const keys = Uint32Array.from(
      { length: ids.length * perId },
      (_, i) => ids[Math.floor(i / perId)] * perId + (i % perId),
    );
    const blocks = Math.ceil((inputTokens + Math.max(0, outputTokens - 1)) / trace.unitTokens);
    const computed = hasOutput ? (blocks - ids.length) * perId : 0;
    // The last output token is not computed.
    const generatedKeys = Uint32Array.from({ length: computed + 1 }, () => unique++);
    builder.add({ arrivalNs, inputTokens: keys.length, outputTokens: computed + 1, keys, generatedKeys });
  }
  return builder.take();
}
