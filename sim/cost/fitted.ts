import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import {
  extensionLoads,
  noLoad,
  type RestoreExtension,
  type StepLoad,
  type StepLoadExtension,
} from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { CostModel } from "./cost-model.ts";

/**
 * Picoseconds per unit of each quantity in a step: `step` once per step, `batchStep` in addition if it computes more than one token
 * (matrix products instead of matrix-vector products), `prefillStep` if it has prefill, and the quantities of `StepLoad`. Whole
 * numbers from 0, so that sums are exact on every machine.
 */
export type Coefficients = Readonly<Record<CoefficientName, number>>;

export type CoefficientName = "step" | "batchStep" | "prefillStep" | Exclude<keyof StepLoad, typeof notSummed>;

/** The load that is a maximum over sequences, to which no time is proportional. */
const notSummed = "longestDecodeTokens";

export const coefficientNames = [
  "step",
  "batchStep",
  "prefillStep",
  ...Object.keys(noLoad()).filter((name) => name !== notSummed),
] as readonly CoefficientName[];

/** A file of schema "cost/1". Coefficients that are 0 may be absent. */
export interface FittedCost {
  /** What was measured, and how. */
  readonly about?: string;
  /** Attention window of sliding-window layers in tokens; needed by the coefficients of window loads. */
  readonly windowTokens?: number;
  /**
   * Needed by the coefficients of calls and padding: how the engine divides steps into calls, restored from the rules in the
   * file.
   */
  readonly calls?: StepLoadExtension | undefined;
  readonly picoseconds: Partial<Coefficients>;
}

/** The duration of a step is the sum of its quantities times their coefficients. */
export class Fitted implements CostModel {
  readonly name = "fitted";
  readonly windowTokens: number | undefined;
  readonly calls: StepLoadExtension | undefined;
  readonly #ps: Coefficients;

  constructor({ windowTokens, calls, picoseconds }: FittedCost) {
    this.windowTokens = windowTokens;
    this.calls = calls;
    this.#ps = { step: 0, batchStep: 0, prefillStep: 0, ...noLoad(), ...picoseconds };
  }

  stepNs(load: Readonly<StepLoad>): Nanos {
    const ps = this.#ps;
    const sum =
      ps.step +
      (load.prefillTokens + load.decodeTokens > 1 ? ps.batchStep : 0) +
      (load.prefillTokens > 0 ? ps.prefillStep : 0) +
      ps.sequences * load.sequences +
      ps.logits * load.logits +
      ps.prefillTokens * load.prefillTokens +
      ps.decodeTokens * load.decodeTokens +
      ps.prefillSequences * load.prefillSequences +
      ps.prefillContextTokens * load.prefillContextTokens +
      ps.decodeContextTokens * load.decodeContextTokens +
      ps.prefillPairs * load.prefillPairs +
      ps.prefillWindowTokens * load.prefillWindowTokens +
      ps.decodeWindowTokens * load.decodeWindowTokens +
      ps.prefillWindowPairs * load.prefillWindowPairs +
      ps.calls * load.calls +
      ps.paddedContextTokens * load.paddedContextTokens +
      ps.farContextTokens * load.farContextTokens +
      ps.paddedPairs * load.paddedPairs +
      ps.copiedBlocks * load.copiedBlocks +
      ps.swappedTokens * load.swappedTokens;
    if (!Number.isSafeInteger(sum)) throw new InputError(`a step takes ${sum} ps, more than 2^53 (2.5 hours)`);
    return Math.max(1, Math.round(sum / 1000));
  }
}

/** The text of a file with these coefficients; those that are 0 are left out. */
export function fittedText({ about, windowTokens, calls, picoseconds }: FittedCost): string {
  const given = Object.entries(picoseconds).filter(([, ps]) => ps !== 0);
  return `${JSON.stringify({ schema: "cost/1", about, windowTokens, calls: calls?.rules, picoseconds: Object.fromEntries(given) }, null, 2)}\n`;
}

/** Checks a parsed file of schema "cost/1"; `restore` restores `calls`. @throws InputError that begins with `where` */
export function fittedFrom(
  file: Readonly<Record<string, unknown>>,
  where: string,
  restore: RestoreExtension,
): FittedCost {
  const { schema: _, about, windowTokens, calls: rules, picoseconds, ...rest } = file;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new InputError(`${where}: unknown field "${unknown}"`);
  if (about !== undefined && typeof about !== "string") throw new InputError(`${where}: about is not a string`);
  if (windowTokens !== undefined) checkCount(windowTokens, "windowTokens", 1, where);
  const calls = rules === undefined ? undefined : restore(rules, where);
  if (typeof picoseconds !== "object" || picoseconds === null || Array.isArray(picoseconds))
    throw new InputError(`${where}: picoseconds is ${JSON.stringify(picoseconds)}, expected coefficients by name`);
  for (const [name, ps] of Object.entries(picoseconds)) {
    if (!(coefficientNames as readonly string[]).includes(name)) {
      const near = nearest(name, coefficientNames);
      const hint = near ? `did you mean "${near}"?` : `expected one of ${coefficientNames.join(", ")}`;
      throw new InputError(`${where}: no coefficient "${name}": ${hint}`);
    }
    checkCount(ps, `picoseconds.${name}`, 0, where);
    if (calls === undefined && (extensionLoads as readonly string[]).includes(name) && ps !== 0)
      throw new InputError(`${where}: picoseconds.${name} needs calls, the engine's division of steps into calls`);
  }
  if (Object.values(picoseconds).every((ps) => ps === 0))
    throw new InputError(`${where}: every coefficient is 0, so that no step takes any time`);
  return { ...(file as unknown as FittedCost), calls };
}

function checkCount(value: unknown, name: string, least: number, where: string): void {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) return;
  throw new InputError(`${where}: ${name} is ${JSON.stringify(value)}, expected a whole number from ${least}`);
}
