import type { JsonRecord } from "./json-records.ts";

/** Numbers sessions by the first appearance of their ids, from 1. */
export class SessionIds {
  readonly #known = new Map<string, number>();

  /** The number of the session that the field names; undefined if the field is absent. */
  of(record: JsonRecord, field: string): number | undefined {
    const id = record.value(field);
    if (id === undefined) return undefined;
    if (typeof id !== "string" && !Number.isSafeInteger(id)) throw record.unexpected(field, "a string or an integer");
    return this.numberOf(JSON.stringify(id));
  }

  numberOf(id: string): number {
    let number = this.#known.get(id);
    if (number === undefined) this.#known.set(id, (number = this.#known.size + 1));
    return number;
  }
}
