import type { TraceRow } from "../core/trace/trace.ts";
import type { Field, JsonLineScanner } from "./json-lines.ts";
import { expectedOutputTokens, mostTokens } from "./requests.ts";

const int32 = "an integer from -2147483648 to 2147483647";
const uint32 = "an integer from 0 to 4294967295";
const nanoseconds = "an integer of nanoseconds, 0 or more";
const text = "a string, an integer or null";

/** Optional fields of requests in any format, for columns that the format itself does not have. */
export const optionalFields = {
  max_output_length: { expected: expectedOutputTokens },
  session_id: { expected: text },
  priority: { expected: int32 },
  retention_ns: { expected: nanoseconds },
  parent: { expected: "the number of an earlier request, counted from 0, or -1" },
  think_ns: { expected: nanoseconds },
  namespace: { expected: uint32 },
  cache_salt: { expected: text },
  adapter: { expected: text },
  category: { expected: uint32 },
  marked_tokens: { expected: expectedOutputTokens },
  tool: { expected: text },
  next_use_ns: { expected: nanoseconds },
  next_use_steps: { expected: uint32 },
  keep_ns: { expected: nanoseconds },
  session_end: { expected: "0 (it goes on), 1 (it is closed) or 2 (its entries may be dropped)" },
} satisfies Record<string, Field>;
export type OptionalName = keyof typeof optionalFields;

type Scanner = Pick<JsonLineScanner<string>, "integer" | "scalarText" | "unexpected" | "error">;

/** Namespaces with a salt or an adapter are numbered from here, above the numbers that files usually contain. */
const firstNamed = 2 ** 31;

/** Reads the optional fields of one trace, request by request. */
export class OptionalFields {
  readonly #sessions = new Map<string, number>();
  readonly #namespaces = new Map<string, number>();
  readonly #tools = new Map<string, number>();
  #salt = "";
  #adapter = "";
  /** Largest namespace given by number. */
  #largest = 0;
  #rows = 0;

  isOptional(name: string): name is OptionalName {
    return Object.hasOwn(optionalFields, name);
  }

  read(name: OptionalName, scan: Scanner, row: TraceRow): void {
    if (name === "session_id") row.session = numbered(this.#sessions, textOf(scan), 1);
    else if (name === "max_output_length") row.maxOutputTokens = scan.integer(0, mostTokens);
    else if (name === "priority") row.priority = scan.integer(-(2 ** 31), 2 ** 31 - 1);
    else if (name === "retention_ns") row.retentionNs = scan.integer(0, Number.MAX_SAFE_INTEGER);
    else if (name === "parent") row.parent = scan.integer(-1, this.#rows - 1);
    else if (name === "think_ns") row.thinkNs = scan.integer(0, Number.MAX_SAFE_INTEGER);
    else if (name === "namespace") row.namespace = scan.integer(0, 2 ** 32 - 1);
    else if (name === "cache_salt") this.#salt = textOf(scan);
    else if (name === "adapter") this.#adapter = textOf(scan);
    else if (name === "category") row.category = scan.integer(0, 2 ** 32 - 1);
    else if (name === "tool") row.tool = numbered(this.#tools, textOf(scan), 1);
    else if (name === "next_use_ns") row.nextUseNs = scan.integer(0, Number.MAX_SAFE_INTEGER);
    else if (name === "next_use_steps") row.nextUseSteps = scan.integer(0, 2 ** 32 - 1);
    else if (name === "keep_ns") row.keepNs = scan.integer(0, Number.MAX_SAFE_INTEGER);
    else if (name === "session_end") row.sessionEnd = scan.integer(0, 2);
    else row.markedTokens = scan.integer(0, mostTokens);
  }

  /** The row is complete. Requests share a namespace if number, salt and adapter are all the same. */
  end(row: TraceRow, scan: Scanner, outputField: string): void {
    const { maxOutputTokens, outputTokens } = row;
    if (maxOutputTokens !== undefined && maxOutputTokens < outputTokens)
      throw scan.error(`max_output_length is ${maxOutputTokens}, expected at least ${outputField}, ${outputTokens}`);
    if (row.markedTokens !== undefined && row.markedTokens > row.inputTokens)
      throw scan.error(
        `marked_tokens is ${row.markedTokens}, expected at most ${row.inputTokens}, the tokens of the prompt`,
      );
    this.#largest = Math.max(this.#largest, row.namespace ?? 0);
    if (this.#salt !== "" || this.#adapter !== "") {
      const named = JSON.stringify([row.namespace ?? 0, this.#salt, this.#adapter]);
      row.namespace = numbered(this.#namespaces, named, firstNamed);
    }
    if (this.#namespaces.size > 0 && this.#largest >= firstNamed)
      throw scan.error(`namespace is ${this.#largest}, expected less than ${firstNamed} beside cache_salt or adapter`);
    this.#salt = this.#adapter = "";
    this.#rows++;
  }
}

/** A string or number as its JSON text; empty for null. */
function textOf(scan: Scanner): string {
  const found = scan.scalarText();
  if (found === "null") return "";
  if (!/^("|-?\d+$)/.test(found)) throw scan.unexpected();
  return found;
}

/** Numbers strings by first appearance; the empty string is number 0. */
export function numbered(known: Map<string, number>, found: string, first: number): number {
  if (found === "") return 0;
  let number = known.get(found);
  if (number === undefined) known.set(found, (number = first + known.size));
  return number;
}
