import { stripVTControlCharacters } from "node:util";
import type { Command } from "commander";
import { type ConformanceDocument, type RanCase, runConformance } from "../lab/conformance/conformance.ts";
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

async function conformance(paths: readonly string[], { json }: { readonly json?: boolean }): Promise<void> {
  const progress = new Progress();
  try {
    const { report, cases } = await runConformance(paths, { progress: progress.follow, signal: interruption });
    progress.done();
    print(json ? `${JSON.stringify(report, undefined, 2)}\n` : text(cases, report));
    if (report.failed > 0) process.exitCode = 1;
  } finally {
    progress.done();
  }
}

const verdicts = ["passed", "failed", "skipped"] as const;

const painted = {
  passed: colors.green("passed"),
  failed: colors.red("failed"),
  skipped: colors.yellow("skipped"),
} as const;

const lineWidth = 80;
/** Where all lines of a case but its first begin: behind its verdict. */
const indent = 9;

function text(ran: readonly RanCase[], report: ConformanceDocument): string {
  const heads = aligned(
    ran.map(({ verdict, worked }) => [painted[verdict], ...[worked.id, worked.family].map(clipped)]),
    "lll",
  ).split("\n");
  const width = Math.max(...heads.map((head) => stripVTControlCharacters(head).length)) - 2;
  const lines = ran.map(({ file, worked, why }, i) => {
    const titled = titledHead(heads[i].slice(2), width, worked.title);
    return why === undefined ? titled : `${titled}\n${paragraph(`${file}: ${why}`)}`;
  });
  return `${lines.join("\n")}\n\n${verdicts.map((verdict) => `${report[verdict]} ${verdict}`).join(", ")}\n`;
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
