import { readdir, stat } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import { engineFault } from "../../engine/cpu/self-check.ts";
import { ExecutorError } from "../../engine/executor.ts";
import { modelCacheFolder } from "../../engine/onnx/model-files.ts";
import { checkWritable } from "../output/run-directory.ts";
import { byteSize, type Finding, finding } from "./finding.ts";

/** Memory of this machine, in bytes. */
export interface Memory {
  readonly totalBytes: number;
  readonly availableBytes: number;
  /** What a container or control group allows; null if nothing does. */
  readonly limitBytes: number | null;
}

export function memoryNow(): Memory {
  const totalBytes = totalmem();
  const limit = process.constrainedMemory();
  const limitBytes = limit > 0 && limit < totalBytes ? limit : null;
  return { totalBytes, availableBytes: process.availableMemory(), limitBytes };
}

export function machineFindings({ totalBytes, availableBytes, limitBytes }: Memory): Finding[] {
  const limit = limitBytes === null ? "" : `, ${byteSize(limitBytes)} allowed`;
  return [
    { what: "cores", ok: true, found: `${cpus().length}, ${availableParallelism()} threads unless --threads says` },
    { what: "memory", ok: true, found: `${byteSize(totalBytes)}, ${byteSize(availableBytes)} available${limit}` },
  ];
}

export interface EngineReport {
  readonly onnxruntime: string | null;
  /** Execution providers that are installed with it; the engine runs on `cpu`. */
  readonly providers: readonly string[];
  readonly threads: number;
  readonly modelCache: { readonly path: string; readonly bytes: number };
}

/** Whether the real engine runs: by running it. */
export async function engineFindings(
  signal?: AbortSignal,
): Promise<{ readonly findings: Finding[]; readonly report: EngineReport }> {
  const path = modelCacheFolder();
  let onnxruntime: string | null = null;
  let providers: string[] = [];
  let bytes = 0;
  const findings = [
    await finding(signal, "ONNX Runtime", async () => {
      const { env, listSupportedBackends } = await loaded(() => import("../../engine/cpu/onnxruntime.ts"));
      onnxruntime = env.versions.node ?? null;
      providers = listSupportedBackends().flatMap(({ name, bundled }) => (bundled ? name : []));
      return `${onnxruntime}, for ${providers.join(", ")}; the engine uses cpu`;
    }),
    await finding(signal, "model cache", async () => {
      await checkWritable(path, path);
      bytes = await bytesBelow(path);
      return `${path}, ${byteSize(bytes)}`;
    }),
    await finding(signal, "engine", async () => {
      const fault = await engineFault();
      if (fault !== undefined) throw new ExecutorError(`random:tiny runs, but ${fault}`);
      return "random:tiny runs, its logits are right";
    }),
    await finding(signal, "text", async () => {
      await loaded(() => import("tokenizers"));
      return "tokenizers load";
    }),
  ];
  return {
    findings,
    report: { onnxruntime, providers, threads: availableParallelism(), modelCache: { path, bytes } },
  };
}

/** @throws ExecutorError of one line if a native library does not load */
async function loaded<Library>(load: () => Promise<Library>): Promise<Library> {
  try {
    return await load();
  } catch (error) {
    throw new ExecutorError(`does not load: ${(error as Error).message.split("\n")[0]}; npm install`);
  }
}

/** What is there at the moment: others may write and remove models. */
async function bytesBelow(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  let bytes = 0;
  for (const entry of entries)
    if (entry.isFile())
      bytes += await stat(join(entry.parentPath, entry.name)).then(
        ({ size }) => size,
        () => 0,
      );
  return bytes;
}
