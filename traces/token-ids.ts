import { InputError } from "../core/errors.ts";
import type { TraceRow } from "../core/trace/trace.ts";
import { Notes, nanosPer, type OpenTraceOptions, type TraceFormat } from "./format.ts";
import { type Field, JsonLineScanner, requiredOf, WideIntegers } from "./json-lines.ts";
import { OptionalFields, optionalFields } from "./optional-fields.ts";
import { withRateNotes } from "./rates.ts";
import {
  ArrivalClock,
  expectedOutputTokens,
  expectedPromptTokens,
  type LineReader,
  mostTokens,
  requestBatches,
} from "./requests.ts";

const tokenIdsFields = {
  input_toks: { expected: expectedPromptTokens, required: true },
  output_toks: { expected: expectedOutputTokens, required: true },
  arrival_time_ns: { expected: "a number of nanoseconds, 0 or more", required: true },
  input_tok_ids: { expected: "an array of token ids", required: true },
  output_tok_ids: { expected: "an array of token ids", required: true },
  ...optionalFields,
} satisfies Record<string, Field>;
type FieldName = keyof typeof tokenIdsFields;

/**
 * LLMServingSim's workloads with real token ids, one request a line:
 * `{"input_toks": n, "output_toks": n, "arrival_time_ns": ns, "input_tok_ids": […], "output_tok_ids": […]}`.
 */
export const tokenIds: TraceFormat = {
  name: "token-ids",
  about: "JSON lines: arrival (ns) and the token ids of prompt and output",
  source: "LLMServingSim, github.com/casys-kaist/LLMServingSim",
  shape: { kinds: ["json-lines"], needs: requiredOf(tokenIdsFields) },
  options: ["unitTokens", "timeUnit", "sort"],
  open(files, options) {
    const { unitTokens, signal, sort } = options;
    if (unitTokens !== undefined && unitTokens !== 1)
      throw new InputError(`unit tokens is ${unitTokens}, expected 1: the keys of a token-ids trace are tokens`);
    const notes = new Notes();
    return {
      format: "token-ids",
      files,
      content: "tokens",
      notes: notes.all,
      batches() {
        const requests = requestBatches(files, new TokenIdsReader(options), { signal, sort, notes });
        return withRateNotes(requests, files, notes, "timeUnit");
      },
    };
  },
};

class TokenIdsReader implements LineReader {
  readonly unitTokens = 1;
  readonly scan = new JsonLineScanner<FieldName>(tokenIdsFields);
  readonly #clock: ArrivalClock;
  readonly #prompt = new WideIntegers();
  readonly #output = new WideIntegers();
  readonly #optional = new OptionalFields();

  constructor({ timeUnit, sort }: OpenTraceOptions) {
    this.#clock = new ArrivalClock(nanosPer[timeUnit ?? "ns"], {
      isUnitGiven: timeUnit !== undefined,
      anyOrder: sort === true,
    });
  }

  row(): TraceRow {
    const { scan } = this;
    let time = 0;
    const row: TraceRow = { arrivalNs: 0, inputTokens: 0, outputTokens: 0, keys: [] };
    for (let name = scan.next(); name; name = scan.next()) {
      if (name === "arrival_time_ns") {
        time = scan.number();
        if (!(time >= 0 && time < Number.POSITIVE_INFINITY)) throw scan.unexpected();
      } else if (name === "input_toks") row.inputTokens = scan.integer(1, mostTokens);
      else if (name === "output_toks") row.outputTokens = scan.integer(0, mostTokens);
      else if (this.#optional.isOptional(name)) this.#optional.read(name, scan, row);
      else scan.wideIntegers(name === "input_tok_ids" ? this.#prompt : this.#output);
    }
    row.arrivalNs = this.#clock.arrivalNs(time, "arrival_time_ns", scan);
    row.keys = this.#tokens("input_tok_ids", this.#prompt, "input_toks", row.inputTokens);
    row.generatedKeys = this.#tokens("output_tok_ids", this.#output, "output_toks", row.outputTokens);
    this.#optional.end(row, scan, "output_toks");
    return row;
  }

  #tokens(field: FieldName, ids: WideIntegers, lengthField: FieldName, length: number): Uint32Array {
    if (ids.length !== length)
      throw this.scan.error(`${field} has ${ids.length} ids, expected ${length} (${lengthField})`);
    for (let i = 0; i < length; i++)
      if (ids.high[i] > 2 || ids.low[i] + ids.high[i] * 1e9 > mostTokens)
        throw this.scan.error(`${field}[${i}] is ${ids.text(i)}, expected a token id from 0 to ${mostTokens}`);
    // No id is above 2^31 − 1, so that `high` is 0 in nearly all of them.
    for (let i = 0; i < length; i++) if (ids.high[i] > 0) ids.low[i] += ids.high[i] * 1e9;
    return ids.low.subarray(0, length);
  }
}
