import { InputError } from "../../core/errors.ts";
import type { RestoreExtension } from "../../core/serving/step-load.ts";
import type { CostModel } from "./cost-model.ts";
import { Fitted, fittedFrom } from "./fitted.ts";
import { Recorded, recordedFrom } from "./recorded.ts";

/**
 * Reads step times from the text of a file: fitted coefficients ("cost/1"), or recorded steps ("steps/1"). Returns the cost
 * model of each replica. `restore` restores the division of steps of an engine's backend.
 * @throws InputError that begins with `where`
 */
export function costFromText(text: string, where: string, restore: RestoreExtension): (replica: number) => CostModel {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (error) {
    throw new InputError(`${where}: is not JSON (${(error as Error).message})`);
  }
  const fields = (typeof file === "object" && file !== null ? file : {}) as Readonly<Record<string, unknown>>;
  switch (fields["schema"]) {
    case "cost/1": {
      const fitted = new Fitted(fittedFrom(fields, where, restore));
      return () => fitted;
    }
    case "steps/1": {
      const { replicas } = recordedFrom(fields, where);
      return (replica) => {
        const steps = replicas[replica];
        if (steps) return new Recorded(steps, `${where}: replica ${replica}`);
        throw new InputError(`${where}: has no replica ${replica}, only ${replicas.length}`);
      };
    }
  }
  throw new InputError(`${where}: schema is ${JSON.stringify(fields["schema"])}, expected "cost/1" or "steps/1"`);
}
