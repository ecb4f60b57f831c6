import { grouped } from "../../core/counted.ts";
import type { Age, AgeUnit } from "../../lab/explain/explanation.ts";
import { duration } from "../../lab/output/numbers.ts";

/** A time between two events as text: "1.52 s", or without a clock "34 (12.1 s)": requests, and the time between their arrivals. */
export function ageText(age: Age): string {
  if (age.requests === undefined) return timeText(age.ns);
  return grouped(age.requests) + (age.arrivalNs > 0 ? ` (${timeText(age.arrivalNs)})` : "");
}

/** A value of a histogram of ages. */
export const ageValue = (value: number, unit: AgeUnit): string => (unit === "ns" ? timeText(value) : grouped(value));

export function timeText(ns: number): string {
  if (ns === 0) return "0";
  if (ns < 1e3) return `${ns} ns`;
  return ns < 1e5 ? `${(ns / 1e3).toPrecision(3)} µs` : duration(ns / 1e6);
}
