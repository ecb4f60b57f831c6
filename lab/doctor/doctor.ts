import { InputError } from "../../core/errors.ts";
import type { WeightBits } from "../../engine/backend.ts";
import type { Control } from "../control.ts";
import { checkWritable } from "../output/run-directory.ts";
import { runsFolder } from "../output/save.ts";
import { libraries, version } from "../package.ts";
import { type EngineReport, engineFindings, type Memory, machineFindings, memoryNow } from "./doctor-engine.ts";
import { type ModelReport, modelFindings } from "./doctor-model.ts";
import { type Finding, finding } from "./finding.ts";

/** The model to check, and its cache. */
export interface DoctorOptions extends Pick<Control, "signal"> {
  /** Also checks this model: a folder, or `random:NAME`. The other options describe its cache and weights. */
  readonly model?: string;
  /** Bits per weight; a backend that does not support them is checked with its default. */
  readonly bits?: WeightBits;
  /** Bytes of the cache. */
  readonly capacity?: number;
  /** Blocks of the cache, in place of `capacity`. */
  readonly blocks?: number;
  /** Tokens of a block. */
  readonly blockSize?: number;
}

/** Schema doctor/1. */
export interface DoctorDocument {
  readonly schema: "doctor/1";
  /** Every finding is ok, except those about devices that the machine lacks. */
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  readonly memory: Memory;
  readonly engine: EngineReport;
  readonly model: ModelReport | null;
}

const leastNode = [20, 19] as const;

/**
 * Checks whether this machine can run kvlab: Node.js, memory, libraries, and each engine backend with a small model.
 *
 * @throws InputError if options contradict each other; Interrupted
 */
export async function doctor(options: DoctorOptions = {}): Promise<{ readonly report: DoctorDocument }> {
  checkOptions(options);
  const { model, blockSize = 16, signal } = options;
  const memory = memoryNow();
  const engine = await engineFindings(signal);
  const checked =
    model === undefined
      ? undefined
      : await modelFindings({ ...options, model, blockSize }, engine.available, memory.availableBytes, signal);
  const findings = [
    { what: "kvlab", ok: true, found: version },
    nodeVersion(),
    ...machineFindings(memory),
    await finding(signal, `${runsFolder}/`, runsWritable),
    await finding(signal, "libraries", librariesLoad),
    await finding(signal, "plug-in files", policiesLoad),
    ...engine.findings,
    ...(checked?.findings ?? []),
  ];
  const ok = findings.every((one) => one.ok || one.optional);
  const described = { memory, engine: engine.report, model: checked?.report ?? null };
  return { report: { schema: "doctor/1", ok, findings, ...described } };
}

/** @throws InputError if an option needs another one, or two exclude each other */
function checkOptions({ model, bits, capacity, blocks, blockSize }: DoctorOptions): void {
  const given = Object.entries({ bits, capacity, blocks, "block-size": blockSize }).find(
    ([, value]) => value !== undefined,
  );
  if (model === undefined && given) throw new InputError(`--${given[0]} needs --model`);
  if (capacity !== undefined && blocks !== undefined)
    throw new InputError("--capacity and --blocks exclude each other: both set the size of the cache");
}

function nodeVersion(): Finding {
  const [major, minor] = process.versions.node.split(".").map(Number);
  const ok = major > leastNode[0] || (major === leastNode[0] && minor >= leastNode[1]);
  const expected = ok ? "" : `, expected ${leastNode.join(".")} or later`;
  return { what: "Node", ok, found: process.versions.node + expected };
}

async function runsWritable(): Promise<string> {
  try {
    await checkWritable(runsFolder, runsFolder);
    return "can be written here";
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    throw new InputError(`${error.message}; use --no-save or --out DIR`);
  }
}

async function librariesLoad(): Promise<string> {
  for (const library of libraries)
    await import(library).catch((error: NodeJS.ErrnoException) => {
      // Some packages export subpaths only; they are installed.
      if (error.code !== "ERR_PACKAGE_PATH_NOT_EXPORTED")
        throw new InputError(`${library} does not load; run npm install`);
    });
  return "all load";
}

/** Plug-in files need esbuild's executable, which a package manager may not have installed. */
async function policiesLoad(): Promise<string> {
  try {
    const { transform } = await import("esbuild");
    await transform("const one: number = 1;", { loader: "ts" });
    return "TypeScript and JavaScript";
  } catch {
    throw new InputError("esbuild does not run; run npm install");
  }
}
