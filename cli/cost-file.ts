import { readFile } from "node:fs/promises";
import { InputError } from "../core/errors.ts";
import { costFromText } from "../sim/cost/cost-file.ts";
import type { SimulationConfig } from "../sim/simulation.ts";

/** Step times from a file. @throws InputError if it cannot be read, or holds something else. */
export async function costFrom(path: string): Promise<SimulationConfig["cost"]> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(`${path}: cannot be read (${error.code})`);
  });
  return costFromText(text, path);
}
