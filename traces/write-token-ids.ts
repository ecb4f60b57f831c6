import { InputError } from "../core/errors.ts";
import { jsonIds, jsonLine, optionalJson, type TraceWriter, writeLines } from "./writer.ts";

/** LLMServingSim's workloads, with the optional fields that the `token-ids` format reads back. */
export const tokenIdsWriter: TraceWriter = {
  name: "token-ids",
  extension: ".jsonl",
  contents: ["tokens"],
  columns: [
    ...(["keys", "maxOutputTokens", "namespace", "session", "parent", "thinkNs"] as const),
    ...(["priority", "retentionNs", "category", "markedTokens", "generatedKeys"] as const),
    ...(["tool", "nextUseNs", "nextUseSteps", "keepNs", "sessionEnd"] as const),
  ],
  hasGzip: true,
  write(target, source, options = {}) {
    return writeLines(target, source, options, (row, index) => {
      const { outputTokens, generatedKeys = [] } = row;
      if (generatedKeys.length !== outputTokens)
        throw new InputError(
          `request ${index} has ${outputTokens} output tokens, but ${generatedKeys.length} ids of them, expected all for token-ids; ` +
            "parquet needs none, and kvlab trace anonymize makes content ids of the prompts",
        );
      return jsonLine([
        ["input_toks", row.inputTokens],
        ["output_toks", outputTokens],
        ["arrival_time_ns", row.arrivalNs],
        ["input_tok_ids", jsonIds(row.keys)],
        ["output_tok_ids", jsonIds(generatedKeys)],
        ...optionalJson(row),
      ]);
    });
  },
};
