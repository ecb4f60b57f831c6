import { InputError } from "../core/errors.ts";
import type { Trace, TraceSource } from "../core/trace/trace.ts";
import { replaceFile } from "./replace-file.ts";
import { decimal, jsonIds, jsonLine, optionalJson, type TraceWriter, writeLines } from "./writer.ts";

/** Unit in tokens that readers of the format assume by default. */
const usualUnitTokens = 512;

/**
 * The Mooncake format. Columns that the format does not have become extra fields, which other readers ignore and the
 * `mooncake` format reads back.
 */
export const mooncakeWriter: TraceWriter = {
  name: "mooncake",
  extension: ".jsonl",
  contents: ["blocks"],
  columns: [
    ...(["keys", "maxOutputTokens", "namespace", "session", "parent", "thinkNs"] as const),
    ...(["priority", "retentionNs", "category", "markedTokens"] as const),
    ...(["tool", "nextUseNs", "nextUseSteps", "keepNs", "sessionEnd"] as const),
  ],
  hasGzip: true,
  write(target, source, options = {}) {
    return writeLines(target, source, options, (row, index, unitTokens) => {
      if (unitTokens === 1)
        throw new InputError("a trace of token ids cannot be written as mooncake, expected content ids of blocks");
      return jsonLine([
        ["timestamp", decimal(row.arrivalNs, 6)],
        ["input_length", row.inputTokens],
        ["output_length", row.outputTokens],
        ["hash_ids", jsonIds(row.keys, options.idOf)],
        ...optionalJson(row),
        ["block_size", index === 0 && unitTokens !== usualUnitTokens ? unitTokens : undefined],
      ]);
    });
  },
};

/**
 * Writes a trace of content ids in the Mooncake format, as gzip if the name ends in `.gz`. The file is renamed to its final
 * name when it is complete.
 *
 * @throws InputError if the keys are token ids, or the file cannot be written.
 */
export async function writeMooncake(trace: Trace | TraceSource, path: string): Promise<void> {
  const source = "batches" in trace ? trace : sourceOf(trace);
  await replaceFile(path, (temporary) =>
    mooncakeWriter.write(temporary, source, { isCompressed: path.endsWith(".gz") }),
  );
}

const sourceOf = (trace: Trace): TraceSource => ({
  ...{ format: "memory", files: [], content: "blocks" },
  async *batches() {
    yield trace;
  },
});
