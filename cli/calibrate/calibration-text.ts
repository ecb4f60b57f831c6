import { counted, grouped } from "../../core/counted.ts";
import type { StepLoadExtension } from "../../core/serving/step-load.ts";
import type { CalibrationDocument } from "../../lab/calibrate/calibration-report.ts";
import { kindLabels } from "../../lab/calibrate/measured-steps.ts";
import { percent } from "../../lab/output/numbers.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

/** The quantity that each coefficient multiplies. */
const meanings: Readonly<Record<string, string>> = {
  step: "each step",
  batchStep: "each step of several tokens, in addition",
  prefillStep: "each step with prefill, in addition",
  prefillSequences: "each sequence in prefill",
  logits: "each token that is sampled",
  prefillTokens: "each prefill token",
  decodeTokens: "each decode token",
  prefillContextTokens: "each context token of prefill",
  decodeContextTokens: "each context token of decode",
  prefillPairs: "each query-key pair of prefill",
  copiedBlocks: "each copied block",
  swappedTokens: "each token swapped out or in",
};

const residualNote =
  "Above 0 the step was slower than the fit; total: sum over the steps of a kind. Steps of the same load: a spread that no model can explain.";

/** The output of `calibrate`. `calls` describes the coefficients of the backend's calls and padding. */
export function calibrationText(document: CalibrationDocument, calls: StepLoadExtension | undefined): string {
  const { about, steps, coefficients, residuals, repeated, cost, plot } = document;
  const callMeanings = new Map(calls?.loads.map(({ name, meaning }) => [name as string, meaning]));
  const micro = (ps: number) => (ps / 1e6).toPrecision(3);
  const signed = (share: number) => `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;
  const head = (cells: readonly string[]) => cells.map((cell) => colors.bold(cell));
  const names = ["p5", "p25", "p50", "p75", "p95"] as const;
  const table = [
    head(["µs", "95 %", "of", ""]),
    ...coefficients.map(({ name, picoseconds, lowPs, highPs }) => [
      micro(picoseconds),
      `${micro(lowPs)} to ${micro(highPs)}`,
      name,
      callMeanings.get(name) ?? meanings[name],
    ]),
  ];
  const rows = [
    head(["measured ÷ fitted − 1", "steps", "mean ms", ...names, "total"]),
    ...residuals.map((row) => [
      kindLabels[row.kind],
      grouped(row.steps),
      row.meanMs.toPrecision(3),
      ...names.map((name) => signed(row[name])),
      signed(row.total),
    ]),
    ...(repeated
      ? [
          [
            "same load ÷ its median",
            `${repeated.distinct} loads`,
            "",
            ...names.map((name) => signed(repeated[name])),
            "",
          ],
        ]
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
