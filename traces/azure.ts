import type { TraceRow } from "../core/trace/trace.ts";
import { CsvLineScanner, DateTime } from "./csv-lines.ts";
import { Notes, type TraceFormat } from "./format.ts";
import { type Field, requiredOf } from "./json-lines.ts";
import {
  ArrivalClock,
  expectedOutputTokens,
  expectedPromptTokens,
  type LineReader,
  mostTokens,
  requestBatches,
} from "./requests.ts";

const azureFields = {
  TIMESTAMP: { expected: "a date and time, such as 2023-11-16 18:15:46.6805900", required: true },
  ContextTokens: { expected: expectedPromptTokens, required: true },
  GeneratedTokens: { expected: expectedOutputTokens, required: true },
} satisfies Record<string, Field>;
type FieldName = keyof typeof azureFields;

/** Azure's LLM inference traces of 2023 and 2024: lengths without content. Arrivals are relative to the first request. */
export const azure: TraceFormat = {
  name: "azure",
  about: "CSV: date, context tokens, generated tokens; lengths only",
  source: "Azure LLM inference traces 2023 and 2024, github.com/Azure/AzurePublicDataset",
  shape: { kinds: ["csv"], needs: requiredOf(azureFields) },
  options: ["sort"],
  open(files, { signal, sort }) {
    const notes = new Notes();
    const batches = () => requestBatches(files, new AzureReader(sort), { signal, sort, notes });
    return { format: "azure", files, content: "lengths", ...(sort && { notes: notes.all }), batches };
  },
};

class AzureReader implements LineReader {
  readonly unitTokens = 1;
  readonly lengthsOnly = true;
  readonly scan = new CsvLineScanner<FieldName>(azureFields);
  readonly #clock: ArrivalClock;
  readonly #time = new DateTime();
  readonly #row: TraceRow = { arrivalNs: 0, inputTokens: 0, outputTokens: 0, keys: [] };

  constructor(sort: boolean | undefined) {
    this.#clock = new ArrivalClock(1e9, { anyOrder: sort === true });
  }

  row(): TraceRow {
    const { scan } = this;
    const row = this.#row;
    for (let name = scan.next(); name; name = scan.next()) {
      if (name === "TIMESTAMP") scan.date(this.#time);
      else if (name === "ContextTokens") row.inputTokens = scan.integer(1, mostTokens);
      else row.outputTokens = scan.integer(0, mostTokens);
    }
    row.arrivalNs = this.#clock.dateNs(this.#time, "TIMESTAMP", scan);
    return row;
  }
}
