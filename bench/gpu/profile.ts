import { join } from "node:path";
import { now } from "../../engine/clock.ts";
import type { DecoderConfig } from "../../engine/model/decoder.ts";
import { attentionCases, attentionStep, type ProfileGrid, stepWith } from "../../lab/calibrate/profile/grid.ts";
import { writeProfile } from "../../lab/calibrate/profile/profile-files.ts";
import { hardwareNameOf } from "../../sim/cost/hardware.ts";
import type { Operators } from "./operators.ts";

/**
 * Writes the folder DEVICE-MODEL with the times of single operators of one layer. `rotary_emb` includes the write of keys and values.
 *
 * @param isOver ends the profile early
 * @returns the folder's name and the number of rows of each file
 */
export function profileOperators(
  out: string,
  operators: Operators,
  { vocabulary }: DecoderConfig,
  model: string,
  grid: ProfileGrid,
  isOver: () => boolean,
): { readonly folder: string; readonly rows: Readonly<Record<string, number>> } {
  const { device, cublas } = operators;
  const hardware = hardwareNameOf(device.name);
  const folder = `${hardware}-${model.replaceAll(":", "-")}`;
  const others = {
    ...{ cuda_version: String(device.driverVersion), cublas_version: cublas?.version ?? "none" },
    ...{ gpu: device.name, variant: "bf16" },
  };
  const rowsOf = <Key, Row>(keys: readonly Key[], measure: (key: Key) => readonly Row[]) =>
    keys.flatMap((key) => (isOver() ? [] : measure(key)));
  const dense = rowsOf(grid.tokens, (tokens) =>
    Array.from(operators.dense(stepWith(vocabulary, [{ tokens, cached: 0 }])), ([layer, us]) => ({
      ...{ layer, tokens, us },
    })),
  );
  const perSequence = rowsOf(grid.sequences, (sequences) => {
    const step = stepWith(vocabulary, Array(sequences).fill({ tokens: 1, cached: 0 }));
    return Array.from(operators.perSequence(step), ([layer, us]) => ({ layer, sequences, us }));
  });
  const attention = rowsOf(attentionCases(grid), (one) => [
    { ...one, us: operators.attention(attentionStep(vocabulary, one)) },
  ]);
  const meta = { hardware, model, profiledAt: now(), others };
  return { folder, rows: writeProfile(join(out, folder), meta, grid, { dense, attention, perSequence }) };
}
