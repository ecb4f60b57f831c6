import { InputError } from "../core/errors.ts";
import type { SimulationConfig } from "../sim/simulation.ts";

/** Step times from a file. @throws InputError if it cannot be read, or holds something else. */
export async function costFrom(path: string): Promise<SimulationConfig["cost"]> {
  throw new InputError(`${path}: measured step times are not part of this version`);
}
