import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import type { WeightBits } from "../engine/onnx/quantized.ts";
import { engineFindings, machineFindings, memoryNow } from "../lab/doctor/doctor-engine.ts";
import { modelFindings } from "../lab/doctor/doctor-model.ts";
import { type Finding, finding } from "../lab/doctor/finding.ts";
import { checkWritable } from "../lab/output/run-directory.ts";
import { runsFolder } from "../lab/output/save.ts";
import { libraries, version } from "../lab/package.ts";
import { addBlockSize, bitsOption, wholeNumber } from "./input/options.ts";
import { bytes } from "./input/simulation-options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { colors } from "./output/table.ts";

interface DoctorOptions {
  readonly model?: string;
  readonly bits?: WeightBits;
  readonly capacity?: number;
  readonly blocks?: number;
  readonly blockSize?: number;
  readonly json?: boolean;
}

const leastNode = [20, 19] as const;

const examples = `
Examples:
  kvlab doctor
  kvlab doctor --json
  kvlab doctor --model ./llama --bits 8 --capacity 4GiB`;

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .description("say whether this machine can run kvlab; exits with 1 if it cannot")
    .option("--model <MODEL>", "whether this model is whole and fits into memory")
    .addOption(bitsOption())
    .option("--capacity <SIZE>", "with a cache of this size, such as 4GiB", bytes("--capacity", 1))
    .option("--blocks <N>", "with a cache of so many blocks", wholeNumber("--blocks", 1));
  addBlockSize(command)
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(examine);
}

async function examine(options: DoctorOptions): Promise<void> {
  checkOptions(options);
  const memory = memoryNow();
  const engine = await engineFindings(interruption);
  const { model, bits = 32, blockSize = 16 } = options;
  const asked =
    model === undefined
      ? undefined
      : await modelFindings({ ...options, model, bits, blockSize }, memory.availableBytes, interruption);
  const findings = [
    { what: "kvlab", ok: true, found: version },
    nodeVersion(),
    ...machineFindings(memory),
    await finding(interruption, `${runsFolder}/`, runsWritable),
    await finding(interruption, "libraries", librariesLoad),
    await finding(interruption, "own policies", policiesLoad),
    ...engine.findings,
    ...(asked?.findings ?? []),
  ];
  const ok = findings.every((one) => one.ok);
  const document = { schema: "doctor/1", ok, findings, memory, engine: engine.report, model: asked?.report ?? null };
  print(`${options.json ? JSON.stringify(document, undefined, 2) : text(findings, ok)}\n`);
  if (!ok) process.exitCode = 1;
}

/** @throws InputError if an option has nothing that it is about */
function checkOptions({ model, bits, capacity, blocks, blockSize }: DoctorOptions): void {
  const given = Object.entries({ bits, capacity, blocks, "block-size": blockSize }).find(
    ([, value]) => value !== undefined,
  );
  if (model === undefined && given) throw new InputError(`--${given[0]} needs --model, whose cache it is about`);
  if (capacity !== undefined && blocks !== undefined)
    throw new InputError("--capacity and --blocks exclude each other: both say how large the cache is");
}

function nodeVersion(): Finding {
  const [major, minor] = process.versions.node.split(".").map(Number);
  const ok = major > leastNode[0] || (major === leastNode[0] && minor >= leastNode[1]);
  const wanted = ok ? "" : `, expected ${leastNode.join(".")} or later`;
  return { what: "Node", ok, found: process.versions.node + wanted };
}

async function runsWritable(): Promise<string> {
  try {
    await checkWritable(runsFolder, runsFolder);
    return "can be written here";
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    throw new InputError(`${error.message}; --no-save or --out DIR`);
  }
}

async function librariesLoad(): Promise<string> {
  for (const library of libraries)
    await import(library).catch((error: NodeJS.ErrnoException) => {
      // Some have parts and no whole; they are there.
      if (error.code !== "ERR_PACKAGE_PATH_NOT_EXPORTED") throw new InputError(`${library} does not load; npm install`);
    });
  return "all load";
}

/** Users' policies need esbuild's own program, which a package manager may have left out. */
async function policiesLoad(): Promise<string> {
  try {
    const { transform } = await import("esbuild");
    await transform("const one: number = 1;", { loader: "ts" });
    return "TypeScript and JavaScript";
  } catch {
    throw new InputError("esbuild does not run; npm install");
  }
}

function text(findings: readonly Finding[], ok: boolean): string {
  const lines = findings.map(
    ({ what, ok: fine, found }) => `  ${fine ? colors.green("✓") : colors.red("✗")} ${what.padEnd(14)}${found}`,
  );
  const verdict = ok ? "This machine can run all of this version." : "Something is amiss: see ✗.";
  return [...lines, "", verdict].join("\n");
}
