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
    .description("run worked cases: operations on a part of a system, with the results that its own tests expect")
    .argument("<FILE...>", "case files (JSON), or folders of them")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(conformance);
}

const examples = `
A case with an unsupported operation, setting or field is skipped, with the
reason, and never passed; so is a case without expectations.
docs/conformance.md describes case files.

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

const coloured = {
  passed: colors.green("passed"),
  failed: colors.red("failed"),
  skipped: colors.yellow("skipped"),
} as const;

const lineWidth = 80;
/** Indentation of a case's further lines: the width of its verdict. */
const indent = 9;

function text(ran: readonly RanCase[], report: ConformanceDocument): string {
  const heads = aligned(
    ran.map(({ verdict, worked }) => [coloured[verdict], ...[worked.id, worked.family].map(clipped)]),
    "lll",
  ).split("\n");
  const width = Math.max(...heads.map((head) => stripVTControlCharacters(head).length)) - 2;
  const lines = ran.map(({ file, worked, why }, i) => {
    const titled = titledHead(heads[i].slice(2), width, worked.title);
    return why === undefined ? titled : `${titled}\n${paragraph(`${file}: ${why}`)}`;
  });
  return `${lines.join("\n")}\n\n${verdicts.map((verdict) => `${report[verdict]} ${verdict}`).join(", ")}\n`;
}

const columnWidth = 32;

function clipped(cell: string): string {
  const line = oneLine(cell);
  return line.length <= columnWidth ? line : `${line.slice(0, columnWidth - 1)}…`;
}

/** The title follows the columns, or starts a new line if they leave too little space. */
function titledHead(head: string, width: number, title: string): string {
  const from = width + 2;
  if (from > lineWidth / 2 + indent) return `${head}\n${paragraph(title)}`;
  const space = " ".repeat(from - stripVTControlCharacters(head).length);
  return `${head}${space}${wrapped(breakable(title, lineWidth - from), indent, from)}`.trimEnd();
}

const paragraph = (text: string) =>
  `${" ".repeat(indent)}${wrapped(breakable(text, lineWidth - indent), indent, indent)}`;

/** The text on one line; words longer than a line are split. */
const breakable = (text: string, width: number) =>
  oneLine(text).replace(new RegExp(`\\S{${width}}(?=\\S)`, "gu"), "$& ");

/** The text without line ends and terminal control characters. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are removed
const oneLine = (text: string) => text.replace(/[\s\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
