import { nanosPer, type TimeUnit } from "./format.ts";
import type { JsonRecord } from "./json-records.ts";

const expected = "a time: a number of 0 or more, or a date such as 2025-10-15T07:54:42Z";
const isoDate = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/;

/** Unix times from 1973 on are above these numbers in their unit, and those before 5138 below the next one. */
const leastUnixTimes: readonly (readonly [least: number, unit: TimeUnit])[] = [
  [1e17, "ns"],
  [1e14, "us"],
  [1e11, "ms"],
];

/**
 * A time in microseconds: a number, or a date of ISO 8601, in UTC if it has no zone. The unit of a number is `unit`; by
 * default it follows from the size of a Unix time, and numbers below 1e11 are seconds.
 *
 * @throws TraceError if the field is neither
 */
export function recordedTimeUs(record: JsonRecord, field: string, unit: TimeUnit | undefined): number {
  const value = record.value(field);
  if (typeof value === "string" && !/^\d+(\.\d+)?$/.test(value)) return isoTimeUs(record, field, value);
  const time = typeof value === "string" ? Number(value) : record.number(field, expected, 0);
  const found = unit ?? leastUnixTimes.find(([least]) => time >= least)?.[1] ?? "s";
  return (time * nanosPer[found]) / 1e3;
}

function isoTimeUs(record: JsonRecord, field: string, text: string): number {
  if (!isoDate.test(text)) throw record.unexpected(field, expected);
  const [whole, fraction = ""] = text.replace(",", ".").split(/(\.\d+)/, 2);
  const zone = /(Z|[+-]\d{2}:?\d{2})$/.exec(text)?.[0] ?? "Z";
  const ms = Date.parse(
    `${whole.replace(" ", "T").replace(/(Z|[+-]\d{2}:?\d{2})$/, "")}${zone.replace(/^([+-]\d{2})(\d{2})$/, "$1:$2")}`,
  );
  if (Number.isNaN(ms) || ms < 0) throw record.unexpected(field, expected);
  return ms * 1e3 + Math.round(Number(`0${fraction || ".0"}`) * 1e6);
}
