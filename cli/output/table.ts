import { stripVTControlCharacters } from "node:util";
import picocolors from "picocolors";

/** Colours if stdout is a terminal, unless NO_COLOR is set. */
export const colors = picocolors.createColors(
  process.stdout.isTTY === true && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb",
);

export const lineWidth = 80;

const widthOf = (text: string) => stripVTControlCharacters(text).length;

/** Rows in columns: `align` has a letter for each, l(eft) or r(ight). Two spaces between columns, two before the first. */
export function aligned(rows: readonly (readonly string[])[], align: string): string {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, widthOf(cell));
    });
  return rows
    .map((row) => {
      const cells = row.map((cell, i) => {
        const space = " ".repeat(widths[i] - widthOf(cell));
        return align[i] === "r" ? space + cell : cell + space;
      });
      return `  ${cells.join("  ")}`.trimEnd();
    })
    .join("\n");
}

/** Text in lines of at most 80 characters; `indent` before all but the first, which begins at column `from`. */
export function wrapped(text: string, indent: number, from = 0): string {
  const lines: string[] = [];
  let line = "";
  let space = lineWidth - from;
  for (const word of text.split(/ (?!%)/)) {
    if (line !== "" && widthOf(line) + 1 + widthOf(word) > space) {
      lines.push(line);
      line = word;
      space = lineWidth - indent;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join(`\n${" ".repeat(indent)}`);
}

const eighths = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** A share as a bar of at most `width` characters. */
export function shareBar(share: number, width: number): string {
  const total = Math.round(share * width * 8);
  const rest = total % 8;
  return "█".repeat(Math.floor(total / 8)) + (rest > 0 ? eighths[rest] : "");
}
