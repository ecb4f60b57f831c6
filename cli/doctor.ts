import { cpus, totalmem } from "node:os";
import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { version } from "./package.ts";
import { print } from "./print.ts";
import { checkWritable } from "./run-directory.ts";
import { runsFolder } from "./save.ts";
import { colors } from "./table.ts";

interface Finding {
  readonly what: string;
  readonly ok: boolean;
  readonly found: string;
}

const leastNode = [20, 19] as const;
const libraries = ["cli-progress", "esbuild", "flatqueue", "hyparquet-writer", "picocolors"];

export function addDoctor(program: Command): void {
  program
    .command("doctor")
    .description("say whether this machine can run kvlab; exits with 1 if it cannot")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", "\nExamples:\n  kvlab doctor\n  kvlab doctor --json")
    .action(examine);
}

async function examine({ json }: { json?: boolean }): Promise<void> {
  const findings = [
    { what: "kvlab", ok: true, found: version },
    nodeVersion(),
    { what: "cores", ok: true, found: String(cpus().length) },
    { what: "memory", ok: true, found: `${(totalmem() / 2 ** 30).toFixed(1)} GiB` },
    await runsWritable(),
    await librariesLoad(),
    await policiesLoad(),
  ];
  const ok = findings.every((finding) => finding.ok);
  const shown = json ? JSON.stringify({ schema: "doctor/1", ok, findings }, undefined, 2) : text(findings, ok);
  print(`${shown}\n`);
  if (!ok) process.exitCode = 1;
}

function nodeVersion(): Finding {
  const [major, minor] = process.versions.node.split(".").map(Number);
  const ok = major > leastNode[0] || (major === leastNode[0] && minor >= leastNode[1]);
  const wanted = ok ? "" : `, expected ${leastNode.join(".")} or later`;
  return { what: "Node", ok, found: process.versions.node + wanted };
}

async function runsWritable(): Promise<Finding> {
  const what = `${runsFolder}/`;
  try {
    await checkWritable(runsFolder, runsFolder);
    return { what, ok: true, found: "can be written here" };
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return { what, ok: false, found: `${error.message}; --no-save or --out DIR` };
  }
}

async function librariesLoad(): Promise<Finding> {
  const what = "libraries";
  for (const library of libraries) {
    try {
      await import(library);
    } catch {
      return { what, ok: false, found: `${library} does not load; npm install` };
    }
  }
  return { what, ok: true, found: "all load" };
}

/** Users' policies need esbuild's own program, which a package manager may have left out. */
async function policiesLoad(): Promise<Finding> {
  const what = "own policies";
  try {
    const { transform } = await import("esbuild");
    await transform("const one: number = 1;", { loader: "ts" });
    return { what, ok: true, found: "TypeScript and JavaScript" };
  } catch {
    return { what, ok: false, found: "esbuild does not run; npm install" };
  }
}

function text(findings: readonly Finding[], ok: boolean): string {
  const lines = findings.map(
    ({ what, ok: fine, found }) => `  ${fine ? colors.green("✓") : colors.red("✗")} ${what.padEnd(14)}${found}`,
  );
  const verdict = ok ? "This machine can run all of this version." : "Something is amiss: see ✗.";
  return [...lines, "", verdict].join("\n");
}
