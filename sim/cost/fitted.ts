import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { type CallRules, callLoads } from "../../core/serving/calls.ts";
import { noLoad, type StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { CostModel } from "./cost-model.ts";

/**
 * What a step costs, in picoseconds: `step` for each step, in addition `batchStep` for one that computes more than one token
 * (a product of matrices, and not of a vector) and `prefillStep` for one with prompts, and for one of each thing that a step is
 * made of. Whole numbers from 0, so that sums are exact on every machine.
 */
export type Coefficients = Readonly<Record<CoefficientName, number>>;

export type CoefficientName = "step" | "batchStep" | "prefillStep" | keyof StepLoad;

export const coefficientNames = [
  "step",
  "batchStep",
  "prefillStep",
  ...Object.keys(noLoad()),
] as readonly CoefficientName[];

/** Coefficients as a file has them: what is 0 may be absent. */
export interface FittedCost {
  readonly schema: "cost/1";
  /** What was measured, and how. */
  readonly about?: string;
  /** For loads that count windows: tokens that layers with a window see. */
  readonly windowTokens?: number;
  /** For coefficients of calls and padding: how the engine divides its steps. */
  readonly calls?: CallRules;
  readonly picoseconds: Partial<Coefficients>;
}

/** A step takes the sum of what its parts cost. */
export class Fitted implements CostModel {
  readonly name = "fitted";
  readonly windowTokens: number | undefined;
  readonly calls: CallRules | undefined;
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
export function fittedText({ about, windowTokens, calls, picoseconds }: Omit<FittedCost, "schema">): string {
  const given = Object.entries(picoseconds).filter(([, ps]) => ps !== 0);
  return `${JSON.stringify({ schema: "cost/1", about, windowTokens, calls, picoseconds: Object.fromEntries(given) }, null, 2)}\n`;
}

/** Checks a parsed file of schema "cost/1". @throws InputError that begins with `where` */
export function fittedFrom(file: Readonly<Record<string, unknown>>, where: string): FittedCost {
  const { schema: _, about, windowTokens, calls, picoseconds, ...rest } = file;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new InputError(`${where}: unknown field "${unknown}"`);
  if (about !== undefined && typeof about !== "string") throw new InputError(`${where}: about is no text`);
  if (windowTokens !== undefined) checkCount(windowTokens, "windowTokens", 1, where);
  if (calls !== undefined) checkCalls(calls, where);
  if (typeof picoseconds !== "object" || picoseconds === null || Array.isArray(picoseconds))
    throw new InputError(`${where}: picoseconds is ${JSON.stringify(picoseconds)}, expected coefficients by name`);
  for (const [name, ps] of Object.entries(picoseconds)) {
    if (!(coefficientNames as readonly string[]).includes(name)) {
      const near = nearest(name, coefficientNames);
      const hint = near ? `did you mean "${near}"?` : `expected one of ${coefficientNames.join(", ")}`;
      throw new InputError(`${where}: no coefficient "${name}": ${hint}`);
    }
    checkCount(ps, `picoseconds.${name}`, 0, where);
    if (calls === undefined && (callLoads as readonly string[]).includes(name) && ps !== 0)
      throw new InputError(`${where}: picoseconds.${name} needs calls, which says how the engine divides its steps`);
  }
  if (Object.values(picoseconds).every((ps) => ps === 0))
    throw new InputError(`${where}: every coefficient is 0, so that no step takes any time`);
  return file as unknown as FittedCost;
}

/** @throws InputError if these are no rules by which steps can be divided */
export function checkCalls(calls: unknown, where: string): asserts calls is CallRules {
  const rules = (typeof calls === "object" && calls !== null ? calls : {}) as Readonly<Record<string, unknown>>;
  checkCount(rules["longestQuery"], "calls.longestQuery", 1, where);
  for (const name of ["perCall", "perContextToken", "perScore"]) {
    const cost = rules[name];
    if (typeof cost === "number" && cost >= 0 && Number.isFinite(cost)) continue;
    throw new InputError(`${where}: calls.${name} is ${JSON.stringify(cost)}, expected a number from 0`);
  }
}

function checkCount(value: unknown, name: string, least: number, where: string): void {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) return;
  throw new InputError(`${where}: ${name} is ${JSON.stringify(value)}, expected a whole number from ${least}`);
}
