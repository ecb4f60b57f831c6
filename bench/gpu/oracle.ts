import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { EngineBackend } from "../../engine/backend.ts";
import { loadModel } from "../../engine/model/load.ts";
import { blocksFor, blockTokens, stepOf } from "../../lab/calibrate/profile/batch-steps.ts";
import { type RowErrors, rowErrors } from "./expected.ts";

/** The exit code of `oracle.py` without torch or transformers. */
const notInstalled = 3;

/** Checkpoints with the logits that transformers computes, compared by name; or the reason why there are none. */
export type OracleComparison = ReadonlyMap<string, RowErrors> | { readonly skipped: string };

/**
 * Compares logits with those of transformers, from the same random checkpoints.
 *
 * @param python the Python program
 * @param folder checkpoints that exist already, instead of new ones
 * @throws Error if Python has transformers, and fails
 */
export async function compareWithTransformers(
  backend: EngineBackend,
  python: string,
  folder?: string,
): Promise<OracleComparison> {
  if (folder !== undefined) return await compared(backend, folder);
  const own = mkdtempSync(join(tmpdir(), "kvlab-oracle-"));
  try {
    const program = fileURLToPath(new URL("./oracle.py", import.meta.url));
    const { status, error, stdout, stderr } = spawnSync(python, [program, own], { encoding: "utf8" });
    if (error) return { skipped: `${python}: ${error.message}` };
    if (status === notInstalled) return { skipped: stdout.trim() };
    if (status !== 0) throw new Error(`${python} ${program} failed: ${stderr.trim().split("\n").at(-1)}`);
    return await compared(backend, own);
  } finally {
    rmSync(own, { recursive: true });
  }
}

async function compared(backend: EngineBackend, folder: string): Promise<ReadonlyMap<string, RowErrors>> {
  const results = new Map<string, RowErrors>();
  for (const name of readdirSync(folder).sort()) results.set(name, await errorsOf(backend, join(folder, name)));
  return results;
}

/** The errors of all rows of the prompt: the first half is prefilled in one step, the rest is decoded. */
async function errorsOf(backend: EngineBackend, folder: string): Promise<RowErrors> {
  const model = loadModel(folder);
  const { vocabulary } = model.config;
  const tokens = Int32Array.from(JSON.parse(readFileSync(join(folder, "prompt.json"), "utf8")) as number[]);
  const expected = new Float32Array(new Uint8Array(readFileSync(join(folder, "logits.f32"))).buffer);
  const executor = await backend.open({ model, blockCount: 2 + blocksFor(tokens.length), blockTokens });
  try {
    const found = new Float32Array(expected.length);
    const half = tokens.length >> 1;
    const prefill = stepOf([{ tokens, from: 0, to: half, block: 1 }]);
    const logitsIndices = Int32Array.from({ length: half }, (_, row) => row);
    found.set((await executor.executeStep({ ...prefill, logitsIndices })).logits);
    for (let at = half; at < tokens.length; at++) {
      const { logits } = await executor.executeStep(stepOf([{ tokens, from: at, to: at + 1, block: 1 }]));
      found.set(logits, at * vocabulary);
    }
    return rowErrors(found, expected, vocabulary);
  } finally {
    await executor.close();
    model.close();
  }
}
