import type { Command } from "commander";
import { type DoctorOptions, doctor } from "../lab/doctor/doctor.ts";
import type { Finding } from "../lab/doctor/finding.ts";
import { addBlockSize, bitsOption, wholeNumber } from "./input/options.ts";
import { bytes } from "./input/simulation-options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { colors } from "./output/table.ts";

interface DoctorCommandOptions extends DoctorOptions {
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab doctor
  kvlab doctor --json
  kvlab doctor --model ./llama --bits 8 --capacity 4GiB`;

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .description("check whether this machine can run kvlab; exit code 1 if it cannot")
    .option("--model <MODEL>", "also check that this model is complete and fits into memory")
    .addOption(bitsOption())
    .option("--capacity <SIZE>", "size of the model's cache, such as 4GiB", bytes("--capacity", 1))
    .option("--blocks <N>", "size of the model's cache in blocks", wholeNumber("--blocks", 1));
  addBlockSize(command)
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(examine);
}

async function examine(options: DoctorCommandOptions): Promise<void> {
  const { report } = await doctor({ ...options, signal: interruption });
  print(`${options.json ? JSON.stringify(report, undefined, 2) : text(report.findings, report.ok)}\n`);
  if (!report.ok) process.exitCode = 1;
}

function text(findings: readonly Finding[], ok: boolean): string {
  const lines = findings.map(({ what, ok, optional, found }) => `  ${markOf(ok, optional)} ${what.padEnd(14)}${found}`);
  const verdict = ok ? "All checks passed." : "Some checks failed: see ✗.";
  return [...lines, "", verdict].join("\n");
}

const markOf = (ok: boolean, optional: boolean | undefined) =>
  ok ? colors.green("✓") : optional ? colors.dim("–") : colors.red("✗");
