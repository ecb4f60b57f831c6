import { counted } from "../core/counted.ts";
import type { TraceRow } from "../core/trace/trace.ts";
import { shownPath } from "./bytes.ts";
import { CsvLineScanner } from "./csv-lines.ts";
import { Notes, nanosPer, type OpenTraceOptions, type TraceFormat } from "./format.ts";
import { type Field, requiredOf } from "./json-lines.ts";
import { numbered } from "./optional-fields.ts";
import { withRateNotes } from "./rates.ts";
import { ArrivalClock, expectedOutputTokens, type LineReader, mostTokens, requestBatches } from "./requests.ts";

const text = "text";
const burstgptFields = {
  Timestamp: { expected: "a number of seconds, 0 or more", required: true },
  "Session ID": { expected: text },
  Model: { expected: text, required: true },
  "Request tokens": { expected: expectedOutputTokens, required: true },
  "Response tokens": { expected: expectedOutputTokens, required: true },
  "Total tokens": { expected: expectedOutputTokens, required: true },
  "Log Type": { expected: text, required: true },
} satisfies Record<string, Field>;
type FieldName = keyof typeof burstgptFields;

/**
 * BurstGPT: lengths without content. A request without response tokens failed in the recorded service: it is read as a
 * request without output. A line without request tokens is left out, as it has no prompt.
 */
export const burstgpt: TraceFormat = {
  name: "burstgpt",
  about: "CSV: time (s), model, request and response tokens; lengths only",
  source: "BurstGPT, github.com/HPMLL/BurstGPT",
  shape: { kinds: ["csv"], needs: requiredOf(burstgptFields) },
  options: ["timeUnit", "sort"],
  open(files, options) {
    const { signal, sort } = options;
    const notes = new Notes();
    return {
      format: "burstgpt",
      files,
      content: "lengths",
      notes: notes.all,
      async *batches() {
        const reader = new BurstgptReader(options);
        yield* withRateNotes(requestBatches(files, reader, { signal, sort, notes }), files, notes, "timeUnit");
        reader.addNotes(files, notes);
      },
    };
  },
};

class BurstgptReader implements LineReader {
  readonly unitTokens = 1;
  readonly lengthsOnly = true;
  readonly scan = new CsvLineScanner<FieldName>(burstgptFields);
  readonly #clock: ArrivalClock;
  readonly #sessions = new Map<string, number>();
  readonly #categories = new Map<string, number>();
  readonly #row: TraceRow = { arrivalNs: 0, inputTokens: 0, outputTokens: 0, keys: [] };
  #failed = 0;
  #empty = 0;
  #otherTotals = 0;

  constructor({ timeUnit, sort }: OpenTraceOptions) {
    this.#clock = new ArrivalClock(nanosPer[timeUnit ?? "s"], {
      isUnitGiven: timeUnit !== undefined,
      anyOrder: sort === true,
    });
  }

  row(): TraceRow | undefined {
    const { scan } = this;
    const row = this.#row;
    let time = 0;
    let total = 0;
    for (let name = scan.next(); name; name = scan.next()) {
      if (name === "Timestamp") {
        time = scan.number();
        if (!(time >= 0 && time < Number.POSITIVE_INFINITY)) throw scan.unexpected();
      } else if (name === "Request tokens") row.inputTokens = scan.integer(0, mostTokens);
      else if (name === "Response tokens") row.outputTokens = scan.integer(0, mostTokens);
      else if (name === "Total tokens") total = scan.integer(0, 2 * mostTokens);
      else if (name === "Log Type") row.category = numbered(this.#categories, scan.text(), 1);
      else if (name === "Session ID") row.session = numbered(this.#sessions, scan.text(), 1);
      else scan.text();
    }
    row.arrivalNs = this.#clock.arrivalNs(time, "Timestamp", scan);
    if (total !== row.inputTokens + row.outputTokens) this.#otherTotals++;
    if (row.inputTokens === 0) {
      this.#empty++;
      return undefined;
    }
    if (row.outputTokens === 0) this.#failed++;
    return row;
  }

  addNotes(files: readonly string[], notes: Notes): void {
    const file = files.map(shownPath).join(", ");
    if (this.#failed > 0)
      notes.add(
        `${file}: ${counted(this.#failed, "request")} without response tokens (failed) are read without output`,
      );
    if (this.#empty > 0) notes.add(`${file}: ${counted(this.#empty, "line")} without request tokens are left out`);
    if (this.#otherTotals > 0)
      notes.add(
        `${file}: ${counted(this.#otherTotals, "line")} have other Total tokens than request and response tokens`,
      );
  }
}
