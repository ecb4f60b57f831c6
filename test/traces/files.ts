import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { InputError } from "../../core/errors.ts";

export { hasRecordedTraces as haveRecordings, recordedTracePath as recording } from "../support/recordings.ts";

/** A folder for one test file's traces. */
export const folder = mkdtempSync(join(tmpdir(), "kvlab-traces-"));
afterAll(() => rmSync(folder, { recursive: true }));

let fileCount = 0;

/** A new file with this content: lines, or raw bytes. */
export function fileOf(content: readonly string[] | string | Uint8Array, name = `t${fileCount++}.jsonl`): string {
  const path = join(folder, name);
  writeFileSync(path, Array.isArray(content) ? content.map((line) => `${line}\n`).join("") : (content as string));
  return path;
}

/** The error message of an action, without the folder's name. */
export async function failureOf(action: () => Promise<unknown>): Promise<string> {
  try {
    await action();
  } catch (error) {
    if (error instanceof InputError) return error.message.replaceAll(`${folder}/`, "");
    throw error;
  }
  return "nothing: it did not fail";
}
