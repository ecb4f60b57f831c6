import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

const folder = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces");

/** Whether the folder of recorded traces exists; if it does, a missing file is a failure. */
export const hasRecordedTraces = existsSync(folder);

/** Path of a recorded trace. */
export function recordedTracePath(name: string): string {
  const path = join(folder, name);
  if (!existsSync(path))
    throw new Error(`${path} is missing: the folder's README.md lists the files that are expected`);
  return path;
}
