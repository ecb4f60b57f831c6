import { counted, grouped } from "../../core/counted.ts";
import type { StepLoadExtension } from "../../core/serving/step-load.ts";
import type { CalibrationDocument } from "../../lab/calibrate/calibration-report.ts";
import { percent } from "../../lab/output/numbers.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

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
  copiedBlocks: "each block that is copied",
  swappedTokens: "each token that is moved to the host or back",
};

const residualNote =
  "Above 0: slower than fitted; in all: of all such steps together. Alike: of the very same load, whose spread no model can explain.";

/** What `calibrate` prints. `calls` says what the coefficients of calls and padding mean. */
export function calibrationText(document: CalibrationDocument, calls: StepLoadExtension | undefined): string {
  const { about, steps, coefficients, residuals, repeated, cost, plot } = document;
  const ofCalls = new Map(calls?.loads.map(({ name, meaning }) => [name as string, meaning]));
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
      ofCalls.get(name) ?? meanings[name],
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
