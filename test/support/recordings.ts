import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

const folder = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces");

/** Whether this machine has the recorded traces at all; if it has, a missing file is a failure. */
export const haveRecordings = existsSync(folder);

/** Path of a recorded trace. */
export function recording(name: string): string {
  const path = join(folder, name);
  if (!existsSync(path)) throw new Error(`${path} is missing, expected as in the folder's README.md`);
  return path;
}
