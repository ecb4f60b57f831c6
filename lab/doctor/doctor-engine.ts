import { readdir, stat } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import type { EngineBackend } from "../../engine/backend.ts";
import { backends, defaultBackend } from "../../engine/backends.ts";
import { ExecutorError } from "../../engine/executor.ts";
import { modelCacheFolder } from "../../engine/onnx/model-files.ts";
import { checkWritable } from "../output/run-directory.ts";
import { byteSize, type Finding, finding } from "./finding.ts";

/** Memory of this machine, in bytes. */
export interface Memory {
  readonly totalBytes: number;
  readonly availableBytes: number;
  /** Limit of the container or control group; null if there is none. */
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
    { what: "cores", ok: true, found: `${cpus().length}, ${availableParallelism()} threads by default` },
    { what: "memory", ok: true, found: `${byteSize(totalBytes)}, ${byteSize(availableBytes)} available${limit}` },
  ];
}

/** The runtime of each backend. */
export interface EngineReport {
  /** Fields of each backend's runtime. */
  readonly [runtimeField: string]: unknown;
  /** Default number of threads of the operators. */
  readonly threads: number;
  readonly modelCache: { readonly path: string; readonly bytes: number };
}

/** The backends of this machine, with findings about them. */
export interface EngineFindings {
  readonly findings: Finding[];
  readonly report: EngineReport;
  /** Backends without those whose device the machine lacks. */
  readonly available: readonly EngineBackend[];
}

/** Checks the engine: runs a small model on each backend whose device the machine has. */
export async function engineFindings(
  signal?: AbortSignal,
  all: readonly EngineBackend[] = backends,
): Promise<EngineFindings> {
  const path = modelCacheFolder();
  let bytes = 0;
  const runtimes: Awaited<ReturnType<typeof runtimeFinding>>[] = [];
  for (const backend of all) runtimes.push(await runtimeFinding(backend, signal));
  const available = all.filter((_, i) => !runtimes[i].found.optional);
  const findings = [
    ...runtimes.map((runtime) => runtime.found),
    await finding(signal, "model cache", async () => {
      await checkWritable(path, path);
      bytes = await bytesBelow(path);
      return `${path}, ${byteSize(bytes)}`;
    }),
  ];
  for (const backend of available) findings.push(await selfCheckFinding(backend, signal));
  findings.push(
    await finding(signal, "text", async () => {
      await loaded(() => import("tokenizers"));
      return "tokenizers load";
    }),
  );
  const reports: object[] = runtimes.map((runtime) => runtime.report);
  return {
    findings,
    available,
    report: { ...Object.assign({}, ...reports), threads: availableParallelism(), modelCache: { path, bytes } },
  };
}

async function runtimeFinding({ runtime }: EngineBackend, signal: AbortSignal | undefined) {
  let report = runtime.missing;
  const found = await finding(signal, runtime.name, async () => {
    const loaded = await runtime.load();
    report = loaded.report;
    return loaded.found;
  });
  return { found, report };
}

const selfCheckFinding = (backend: EngineBackend, signal: AbortSignal | undefined): Promise<Finding> =>
  finding(signal, backend.name === defaultBackend.name ? "engine" : `engine, ${backend.name}`, async () => {
    const fault = await backend.selfCheck();
    if (fault !== undefined) throw new ExecutorError(`random:tiny runs, but ${fault}`);
    return "random:tiny runs, its logits are correct";
  });

/** @throws ExecutorError of one line if a native library does not load */
async function loaded<Library>(load: () => Promise<Library>): Promise<Library> {
  try {
    return await load();
  } catch (error) {
    throw new ExecutorError(`does not load: ${(error as Error).message.split("\n")[0]}; run npm install`);
  }
}

/** Bytes of all files below a folder; other programs may add and remove files meanwhile. */
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
