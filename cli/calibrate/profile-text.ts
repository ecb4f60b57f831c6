import { counted } from "../../core/counted.ts";
import type { ProfileDocument } from "../../lab/calibrate/calibrate-profile.ts";
import { percent } from "../../lab/output/numbers.ts";
import { colors, wrapped } from "../output/table.ts";

/** The output of `calibrate --profile`. */
export function profileText({ about, folder, rows, rounds, grid, spread }: ProfileDocument): string {
  const { dense, attention, per_sequence } = rows;
  const named = /[/\\]/.test(folder) ? folder : `./${folder}`;
  return [
    `${colors.bold("profiled")} ${about}: ${counted(dense, "row")} of dense layers, ${attention} of attention, ${per_sequence} of logits; medians of ${counted(rounds, "round")}`,
    `Steps of up to ${counted(grid.maxTokens, "token")} and ${counted(grid.maxSequences, "sequence")} were measured; times of larger ones are extrapolated. ` +
      `Half of the measurements are within ${signed(spread.p25)} and ${signed(spread.p75)} of the median of their step.`,
    `Operator profile in ${folder}, for kvlab replay --target sim --cost profile:${named}`,
  ]
    .map((text) => wrapped(text, 0))
    .join("\n\n");
}

const signed = (share: number) => `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;
