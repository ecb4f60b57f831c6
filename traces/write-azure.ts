import type { Nanos } from "../core/trace/trace.ts";
import { type TraceWriter, writeLines } from "./writer.ts";

/** The CSV of Azure's public traces: arrival and lengths. The first time is that of the first request after 1970-01-01. */
export const azureWriter: TraceWriter = {
  name: "azure",
  extension: ".csv",
  contents: ["blocks", "tokens", "lengths"],
  columns: [],
  hasGzip: true,
  write(target, source, options = {}) {
    return writeLines(
      target,
      source,
      options,
      (row) => `${dateTime(row.arrivalNs)},${row.inputTokens},${row.outputTokens}\n`,
      "TIMESTAMP,ContextTokens,GeneratedTokens\n",
    );
  },
};

/** Date and time with the seven decimal places of the published files, or nine if the time needs them. */
function dateTime(nanos: Nanos): string {
  const seconds = Math.floor(nanos / 1e9);
  const fraction = String(nanos % 1e9)
    .padStart(9, "0")
    .replace(/00$/, "");
  return `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")}.${fraction}`;
}
