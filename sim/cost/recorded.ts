import { InputError } from "../../core/errors.ts";
import type { StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { CostModel } from "./cost-model.ts";

/** Steps of one replica in their order, as columns. */
export interface RecordedSteps {
  readonly durationNs: readonly number[];
  readonly prefillTokens: readonly number[];
  readonly decodeTokens: readonly number[];
}

/** The content of a file: the steps of a run, by replica. */
export interface RecordedRun {
  readonly schema: "steps/1";
  readonly replicas: readonly RecordedSteps[];
}

/** A step differs from the recorded one. */
export class NotRecorded extends InputError {
  override name = "NotRecorded";
}

/**
 * Step durations of a recorded run. Given these durations, a simulation must make the same decisions as the recorded run; every
 * step must have as many tokens as the recorded one.
 */
export class Recorded implements CostModel {
  readonly name = "recorded";
  readonly inOrder = true as const;
  readonly #steps: RecordedSteps;
  readonly #where: string;
  #next = 0;

  /** Error messages begin with `where`. */
  constructor(steps: RecordedSteps, where: string) {
    this.#steps = steps;
    this.#where = where;
  }

  /** @throws NotRecorded at the first step that differs from the recorded one. */
  stepNs({ prefillTokens, decodeTokens }: Readonly<StepLoad>): Nanos {
    const step = this.#next++;
    const steps = this.#steps;
    if (step >= steps.durationNs.length)
      throw new NotRecorded(`${this.#where}: step ${step} is past the ${steps.durationNs.length} recorded steps`);
    if (steps.prefillTokens[step] !== prefillTokens || steps.decodeTokens[step] !== decodeTokens)
      throw new NotRecorded(
        `${this.#where}: step ${step} computes ${prefillTokens} prefill tokens and ${decodeTokens} decode tokens, ` +
          `the recorded one ${steps.prefillTokens[step]} and ${steps.decodeTokens[step]}`,
      );
    return steps.durationNs[step];
  }
}

/** The text of a file with these steps. */
export function recordedText(replicas: readonly RecordedSteps[]): string {
  const columns = replicas.map(({ durationNs, prefillTokens, decodeTokens }) => ({
    durationNs,
    prefillTokens,
    decodeTokens,
  }));
  return `${JSON.stringify({ schema: "steps/1", replicas: columns } satisfies RecordedRun)}\n`;
}

/** Checks a parsed file of schema "steps/1". @throws InputError that begins with `where` */
export function recordedFrom(file: Readonly<Record<string, unknown>>, where: string): RecordedRun {
  const { replicas } = file;
  if (!Array.isArray(replicas) || replicas.length === 0)
    throw new InputError(`${where}: replicas is ${JSON.stringify(replicas)}, expected step columns for each replica`);
  replicas.forEach((steps: unknown, i) => {
    checkSteps(steps, `${where}: replica ${i}`);
  });
  return file as unknown as RecordedRun;
}

function checkSteps(steps: unknown, where: string): void {
  if (typeof steps !== "object" || steps === null) throw new InputError(`${where} has no columns`);
  const columns = steps as Record<string, unknown>;
  const lengths = (["durationNs", "prefillTokens", "decodeTokens"] as const).map((name) => {
    const column = columns[name];
    if (!Array.isArray(column)) throw new InputError(`${where}: ${name} is not a list`);
    const least = name === "durationNs" ? 1 : 0;
    const wrong = column.findIndex((value) => !(Number.isSafeInteger(value) && value >= least));
    if (wrong >= 0)
      throw new InputError(
        `${where}: ${name} of step ${wrong} is ${JSON.stringify(column[wrong])}, expected a whole number from ${least}`,
      );
    return column.length;
  });
  if (lengths.some((length) => length !== lengths[0]))
    throw new InputError(`${where}: the columns differ in length: ${lengths.join(", ")}`);
}
