import type { Fit } from "../../sim/cost/fit.ts";
import { version } from "../package.ts";
import type { MeasuredEngine } from "./measured-engine.ts";
import type { Measured, MeasuredKind } from "./measured-steps.ts";

/** Measured steps, and the fit to them. */
export interface FittedSteps extends MeasuredEngine {
  readonly fit: Fit;
}

export interface Calibration extends FittedSteps {
  readonly from: string | null;
  readonly seed: number;
  readonly out: string;
  readonly plot: string;
}

const shares = { p5: 0.05, p25: 0.25, p50: 0.5, p75: 0.75, p95: 0.95 } as const;
type Quantiles = Readonly<Record<keyof typeof shares, number>>;

export function quantiles(values: readonly number[]): Quantiles {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))];
  return Object.fromEntries(Object.entries(shares).map(([name, share]) => [name, at(share)])) as Quantiles;
}

/** Residuals of one kind: measured ÷ fitted − 1. */
function residuals(kind: MeasuredKind | "all", rows: readonly { readonly ns: number; readonly fittedNs: number }[]) {
  const sum = (of: (row: (typeof rows)[number]) => number) => rows.reduce((total, row) => total + of(row), 0);
  return {
    kind,
    steps: rows.length,
    ...quantiles(rows.map(({ ns, fittedNs }) => ns / fittedNs - 1)),
    /** Measured ÷ fitted − 1 of the sums over all steps. */
    total: sum(({ ns }) => ns) / sum(({ fittedNs }) => fittedNs) - 1,
    meanMs: sum(({ ns }) => ns) / rows.length / 1e6,
  };
}

/** A row for each kind of step, and for all of them. */
export function residualsByKind(steps: readonly Measured[], fittedNs: ArrayLike<number>) {
  const rows = steps.map(({ ns, kind }, i) => ({ ns, kind, fittedNs: fittedNs[i] }));
  const kinds = [...new Set(rows.map(({ kind }) => kind))].sort();
  return [
    ...kinds.map((kind) =>
      residuals(
        kind,
        rows.filter((row) => row.kind === kind),
      ),
    ),
    residuals("all", rows),
  ];
}

/** The coefficients of a fit and its residuals. */
export function fitReport({ about, steps, fit }: FittedSteps) {
  return {
    about,
    steps: steps.length,
    coefficients: fit.coefficients,
    residuals: residualsByKind(steps, fit.fittedNs),
    repeated: repeated(steps),
  };
}

/** The document that `calibrate --json` prints: schema calibrate/1. Fields may be added, none renamed. */
export function calibrationDocument({ from, seed, out, plot, ...fitted }: Calibration) {
  return { schema: "calibrate/1", kvlab: version, from, seed, ...fitReport(fitted), cost: out, plot };
}
export type CalibrationDocument = ReturnType<typeof calibrationDocument>;

/** The spread of steps of the same load around their median, which no model can explain; null if all loads differ. */
function repeated(steps: readonly Measured[]) {
  const byLoad = new Map<string, number[]>();
  for (const { amounts, ns } of steps) {
    const key = JSON.stringify(amounts);
    const found = byLoad.get(key);
    if (found) found.push(ns);
    else byLoad.set(key, [ns]);
  }
  const groups = [...byLoad.values()].filter((times) => times.length > 1);
  if (groups.length === 0) return null;
  return {
    distinct: byLoad.size,
    ...quantiles(groups.flatMap((times) => times.map((ns) => ns / quantiles(times).p50 - 1))),
  };
}
