import { seededRandom } from "../../core/random.ts";

/** A value of an option, as in a sweep file. */
export type Scalar = string | number | boolean;

/** Numbers from one to another; both may have the same unit, such as `1%` and `50%`. */
export interface Range {
  readonly from: number | string;
  readonly to: number | string;
  /** Values differ from `from` by multiples of this. */
  readonly step?: number | undefined;
  /** Number of values, at equal distances. */
  readonly count?: number | undefined;
  /** Distances are differences, or ratios. */
  readonly scale?: "linear" | "log" | undefined;
}

/** The values of an option that varies. */
export type Axis = readonly Scalar[] | Range;

/** A range that cannot be expanded; the message is about the range. */
export class AxisError extends Error {
  override name = "AxisError";
}

const isList = (axis: Axis): axis is readonly Scalar[] => Array.isArray(axis);

/** More values of one range are refused. */
const mostValues = 1_000_000;

/** All values of an axis. @throws AxisError */
export function valuesOf(axis: Axis): readonly Scalar[] {
  if (isList(axis)) return axis;
  const { from, to, unit, isLog } = bounds(axis);
  const { step, count } = axis;
  if (step === undefined && count === undefined)
    throw new AxisError("has neither step nor count, expected one of them, or a sample");
  if (count === undefined && isLog) throw new AxisError("has scale log without count, expected a count");
  const values =
    count === undefined
      ? Array.from({ length: stepsIn(from, to, step!) + 1 }, (_, i) => from + i * step!)
      : Array.from({ length: count }, (_, i) => between(from, to, count === 1 ? 0 : i / (count - 1), isLog));
  return [...new Set(values.map((value) => shown(rounded(value, from, to, step), unit)))];
}

/** The value of an axis at a share, from 0 to below 1, of its values. @throws AxisError */
function valueAt(axis: Axis, share: number): Scalar {
  if (isList(axis)) return axis[Math.floor(share * axis.length)];
  const { from, to, unit, isLog } = bounds(axis);
  const { step, count } = axis;
  if (count !== undefined || (step !== undefined && !isLog)) return valueAt(valuesOf(axis), share);
  return shown(rounded(between(from, to, share, isLog), from, to, step), unit);
}

/** Every combination of the values; the last axis varies first. @throws AxisError */
export function gridOf(axes: Readonly<Record<string, Axis>>): Record<string, Scalar>[] {
  let rows: Record<string, Scalar>[] = [{}];
  for (const [name, axis] of Object.entries(axes)) {
    const values = valuesOf(axis);
    if (rows.length * values.length > mostValues)
      throw new AxisError(`makes over ${mostValues} combinations; expected fewer values, or a sample`);
    rows = rows.flatMap((row) => values.map((value) => ({ ...row, [name]: value })));
  }
  return rows;
}

/**
 * A Latin hypercube: each axis is divided into `count` equal parts, and each part has one row.
 *
 * @see McKay, Beckman, Conover: A comparison of three methods for selecting values of input variables, 1979
 * @throws AxisError
 */
export function latinHypercube(axes: Readonly<Record<string, Axis>>, count: number, seed: number) {
  const random = seededRandom(seed);
  const rows: Record<string, Scalar>[] = Array.from({ length: count }, () => ({}));
  for (const [name, axis] of Object.entries(axes)) {
    const parts = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const other = random.below(i + 1);
      [parts[i], parts[other]] = [parts[other], parts[i]];
    }
    for (const [i, row] of rows.entries())
      row[name] = valueAt(axis, Math.min((parts[i] + random.unit()) / count, 1 - Number.EPSILON));
  }
  return rows;
}

function bounds({ from: first, to: last, step, scale }: Range) {
  const [from, to] = [numberIn(first, "from"), numberIn(last, "to")];
  if (from.unit !== to.unit) throw new AxisError(`from is ${first} and to is ${last}, expected the same unit`);
  if (!(to.value >= from.value)) throw new AxisError(`to is ${last}, expected at least from, ${first}`);
  const isLog = scale === "log";
  if (isLog && from.value <= 0) throw new AxisError(`from is ${first}, expected more than 0 with scale log`);
  if (step !== undefined && stepsIn(from.value, to.value, step) > mostValues)
    throw new AxisError(`has over ${mostValues} values, expected a larger step`);
  return { from: from.value, to: to.value, unit: from.unit, isLog };
}

/** `10`, `1%`, `0.5ms`. */
function numberIn(given: number | string, field: string): { readonly value: number; readonly unit: string } {
  const [, digits, unit = ""] = /^(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)([a-zA-Z%]*)$/.exec(String(given)) ?? [];
  const value = Number(digits);
  if (digits !== undefined && Number.isFinite(value)) return { value, unit };
  throw new AxisError(`${field} is ${JSON.stringify(given)}, expected a number, or a number with a unit such as 10%`);
}

/** Whole steps between two numbers; a step that ends at `to` but for rounding is whole. */
const stepsIn = (from: number, to: number, step: number): number => Math.floor((to - from) / step + 1e-9);

const between = (from: number, to: number, share: number, isLog: boolean): number =>
  share === 1 ? to : isLog ? from * (to / from) ** share : from + share * (to - from);

/** The nearest value that differs from `from` by a multiple of `step`. */
function rounded(value: number, from: number, to: number, step: number | undefined): number {
  if (step === undefined) return value;
  return from + Math.min(Math.round((value - from) / step), stepsIn(from, to, step)) * step;
}

/** Significant digits that are the same on every machine: the last bits of a power are not. */
const sameDigits = 12;

function shown(value: number, unit: string): Scalar {
  const number = Number(value.toPrecision(sameDigits));
  return unit === "" ? number : `${number}${unit}`;
}
