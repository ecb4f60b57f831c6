import { aligned, colors, counted, grouped, percent, wrapped } from "../../cli/output/table.ts";
import { nearContextTokens } from "../../core/serving/calls.ts";
import type { Fit } from "../../sim/cost/fit.ts";
import { version } from "../package.ts";
import type { MeasuredEngine } from "./measured-engine.ts";
import type { Measured, MeasuredKind } from "./measured-steps.ts";

/** Steps that were measured, and what was fitted to them. */
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

function quantiles(values: readonly number[]): Quantiles {
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
    /** Of all of them together. */
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

/** What a fit found, and how far off it is. */
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

/** How far steps that are made of the same are from their median, which no model can explain; null if no two are alike. */
function repeated(steps: readonly Measured[]) {
  const alike = new Map<string, number[]>();
  for (const { amounts, ns } of steps) {
    const key = JSON.stringify(amounts);
    const found = alike.get(key);
    if (found) found.push(ns);
    else alike.set(key, [ns]);
  }
  const groups = [...alike.values()].filter((times) => times.length > 1);
  if (groups.length === 0) return null;
  return {
    distinct: alike.size,
    ...quantiles(groups.flatMap((times) => times.map((ns) => ns / quantiles(times).p50 - 1))),
  };
}

/** What a coefficient is the price of. */
const meanings: Readonly<Record<string, string>> = {
  step: "each step",
  batchStep: "a step of more than one token, in addition",
  prefillStep: "a step with prompts, in addition",
  prefillSequences: "each prompt of a step",
  logits: "each token that is written",
  prefillTokens: "each token of a prompt",
  decodeTokens: "each answer of a step",
  prefillContextTokens: "each token that a prompt looks back on",
  decodeContextTokens: "each token that an answer looks back on",
  prefillPairs: "each pair of a prompt's query and a key",
  calls: "each call of the model, of which a step may have several",
  paddedContextTokens: "each token that a sequence looks back on, padding included",
  farContextTokens: `each of these after the first ${grouped(nearContextTokens)} of a call, in addition`,
  paddedPairs: "each pair of a query and a key, padding included",
  copiedBlocks: "each block that is copied",
  swappedTokens: "each token that is moved to the host or back",
};

const residualNote =
  "Above 0: slower than fitted; in all: of all such steps together. Alike: of the very same load, whose spread no model can explain.";

/** What `calibrate` prints. */
export function calibrationText({
  about,
  steps,
  coefficients,
  residuals,
  repeated,
  cost,
  plot,
}: CalibrationDocument): string {
  const micro = (ps: number) => (ps / 1e6).toPrecision(3);
  const signed = (share: number) => `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;
  const head = (cells: readonly string[]) => cells.map((cell) => colors.bold(cell));
  const names = Object.keys(shares) as (keyof Quantiles)[];
  const table = [
    head(["µs", "95 %", "of", ""]),
    ...coefficients.map(({ name, picoseconds, lowPs, highPs }) => [
      micro(picoseconds),
      `${micro(lowPs)} to ${micro(highPs)}`,
      name,
      meanings[name],
    ]),
  ];
  const rows = [
    head(["measured ÷ fitted − 1", "steps", "mean ms", ...names, "in all"]),
    ...residuals.map((row) => [
      row.kind,
      grouped(row.steps),
      row.meanMs.toPrecision(3),
      ...names.map((name) => signed(row[name])),
      signed(row.total),
    ]),
    ...(repeated
      ? [["alike ÷ their median", `${repeated.distinct} kinds`, "", ...names.map((name) => signed(repeated[name])), ""]]
      : []),
  ];
  return [
    wrapped(`${colors.bold("calibrated")} ${about}: ${counted(steps, "step")}`, 0),
    aligned(table, "rrll"),
    aligned(rows, "lrrrrrrrr"),
    wrapped(residualNote, 0),
    wrapped(`Cost model in ${cost}, for kvlab replay --target sim --cost ${cost}; residuals in ${plot}`, 0),
  ].join("\n\n");
}
