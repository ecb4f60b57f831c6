import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import type { Command } from "commander";
import type { Case } from "../conformance/case.ts";
import type { Verdict } from "../conformance/run.ts";
import { InputError } from "../core/errors.ts";
import { breathe } from "../lab/control.ts";
import { version } from "../lab/package.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { aligned, colors, wrapped } from "./output/table.ts";

export function addConformance(program: Command): void {
  program
    .command("conformance")
    .description("run worked cases: operations on a part of a system, and what that system's own tests expect of them")
    .argument("<FILE...>", "case files (JSON), or folders of them")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(conformance);
}

const examples = `
A case with an operation, setting or field that kvlab does not know is skipped,
with the reason, and never passed; so is a case that expects nothing.
docs/conformance.md describes the format of case files.

Exit code: 0 no case failed, 1 a case failed, 2 a file cannot be read as a case.

Examples:
  kvlab conformance case.json
  kvlab conformance cases/
  kvlab conformance cases/*.json --json`;

interface Ran extends Verdict {
  readonly file: string;
  readonly worked: Case;
}

async function conformance(paths: readonly string[], { json }: { readonly json?: boolean }): Promise<void> {
  // Loaded only now, for no other command needs it.
  const { parseCase } = await import("../conformance/case.ts");
  const { runCase } = await import("../conformance/run.ts");
  const progress = new Progress();
  const ran: Ran[] = [];
  try {
    const cases: { file: string; worked: Case }[] = [];
    for (const file of (await Promise.all(paths.map(filesOf))).flat()) {
      progress.state(`reading ${file}`);
      cases.push({ file, worked: parseCase(await textOf(file), file) });
    }
    for (const { file, worked } of cases) {
      await breathe(interruption);
      progress.state(`running ${worked.id}`);
      ran.push({ file, worked, ...runCase(worked) });
    }
  } finally {
    progress.done();
  }
  print(json ? `${JSON.stringify(document(ran), undefined, 2)}\n` : text(ran));
  if (count(ran, "failed") > 0) process.exitCode = 1;
}

/** The file itself, or the case files in a folder. */
async function filesOf(path: string): Promise<string[]> {
  if (path === "") throw new InputError("a FILE is empty, expected a case file or a folder of them");
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = (await readdir(path)).filter((name) => name.endsWith(".json")).sort();
    if (names.length > 0) return names.map((name) => join(path, name));
  } catch (error) {
    throw unreadable(path, error);
  }
  throw new InputError(`${path}: no .json file is in this folder, expected case files`);
}

async function textOf(file: string): Promise<string> {
  try {
    if (!(await stat(file)).isFile()) throw new Error("is not a regular file");
    return await readFile(file, "utf8");
  } catch (error) {
    throw unreadable(file, error);
  }
}

function unreadable(path: string, error: unknown): InputError {
  const { code, message } = error as NodeJS.ErrnoException;
  const what = code === "ENOENT" ? "there is no such file" : `cannot be read (${code ?? message})`;
  return new InputError(`${path}: ${what}, expected a case file or a folder of them`);
}

const count = (ran: readonly Ran[], verdict: Verdict["verdict"]) =>
  ran.filter((each) => each.verdict === verdict).length;

const verdicts = ["passed", "failed", "skipped"] as const;

const painted = {
  passed: colors.green("passed"),
  failed: colors.red("failed"),
  skipped: colors.yellow("skipped"),
} as const;

const lineWidth = 80;
/** Where all lines of a case but its first begin: behind its verdict. */
const indent = 9;

function text(ran: readonly Ran[]): string {
  const heads = aligned(
    ran.map(({ verdict, worked }) => [painted[verdict], ...[worked.id, worked.family].map(clipped)]),
    "lll",
  ).split("\n");
  const width = Math.max(...heads.map((head) => stripVTControlCharacters(head).length)) - 2;
  const lines = ran.map(({ file, worked, why }, i) => {
    const titled = titledHead(heads[i].slice(2), width, worked.title);
    return why === undefined ? titled : `${titled}\n${paragraph(`${file}: ${why}`)}`;
  });
  return `${lines.join("\n")}\n\n${verdicts.map((verdict) => `${count(ran, verdict)} ${verdict}`).join(", ")}\n`;
}

const mostInColumn = 32;

function clipped(cell: string): string {
  const said = oneLine(cell);
  return said.length <= mostInColumn ? said : `${said.slice(0, mostInColumn - 1)}…`;
}

/** The title goes on behind the columns, or begins a line where these leave too little room. */
function titledHead(head: string, width: number, title: string): string {
  const from = width + 2;
  if (from > lineWidth / 2 + indent) return `${head}\n${paragraph(title)}`;
  const space = " ".repeat(from - stripVTControlCharacters(head).length);
  return `${head}${space}${wrapped(breakable(title, lineWidth - from), indent, from)}`.trimEnd();
}

const paragraph = (said: string) =>
  `${" ".repeat(indent)}${wrapped(breakable(said, lineWidth - indent), indent, indent)}`;

/** On one line, and without words that are longer than a line. */
const breakable = (said: string, width: number) =>
  oneLine(said).replace(new RegExp(`\\S{${width}}(?=\\S)`, "gu"), "$& ");

/** Without line ends and what else would steer a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const oneLine = (said: string) => said.replace(/[\s\u0000-\u001f\u007f-\u009f]+/g, " ").trim();

function document(ran: readonly Ran[]) {
  return {
    schema: "conformance/1",
    kvlab: version,
    cases: ran.map(({ file, worked: { id, family, title }, verdict, why, op }) => ({
      id,
      family,
      title,
      file,
      verdict,
      why: why ?? null,
      op: op ?? null,
    })),
    ...Object.fromEntries(verdicts.map((verdict) => [verdict, count(ran, verdict)])),
  };
}
