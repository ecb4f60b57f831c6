import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll } from "vitest";
import { InputError } from "../../core/errors.ts";

/** A folder for one test file's traces. */
export const folder = mkdtempSync(join(tmpdir(), "kvlab-traces-"));
afterAll(() => rmSync(folder, { recursive: true }));

let fileCount = 0;

/** A new file with this content: lines, or bytes as they are. */
export function fileOf(content: readonly string[] | string | Uint8Array, name = `t${fileCount++}.jsonl`): string {
  const path = join(folder, name);
  writeFileSync(path, Array.isArray(content) ? content.map((line) => `${line}\n`).join("") : (content as string));
  return path;
}

/** What an action fails with, without the folder's name. */
export async function failureOf(action: () => Promise<unknown>): Promise<string> {
  try {
    await action();
  } catch (error) {
    if (error instanceof InputError) return error.message.replaceAll(`${folder}/`, "");
    throw error;
  }
  return "nothing: it did not fail";
}

const recordings = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces");

/** Whether this machine has the recorded traces at all; if it has, a missing file is a failure. */
export const haveRecordings = existsSync(recordings);

export function recording(name: string): string {
  const path = join(recordings, name);
  if (!existsSync(path)) throw new Error(`${path} is missing, expected as in the folder's README.md`);
  return path;
}
