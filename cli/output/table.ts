import { stripVTControlCharacters } from "node:util";
import picocolors from "picocolors";
import { grouped } from "../../core/counted.ts";

export { counted, grouped } from "../../core/counted.ts";

/** Colours where a person looks at the result, unless NO_COLOR is set. */
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
  let room = lineWidth - from;
  for (const word of text.split(" ")) {
    if (line !== "" && widthOf(line) + 1 + widthOf(word) > room) {
      lines.push(line);
      line = word;
      room = lineWidth - indent;
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

/** A ratio as the tables of papers have it: four digits. */
export const ratio = (value: number) => value.toFixed(4);

/** 0.0712 as 7.1 %. */
export function percent(share: number): string {
  const value = share * 100;
  return `${value >= 9.95 && Math.abs(value - Math.round(value)) < 0.05 ? Math.round(value) : value.toFixed(1)} %`;
}

export function milliseconds(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toPrecision(2)} ms`;
}

/** 28850000 as 28.9 million. */
export function approximate(value: number): string {
  for (const [size, word] of [
    [1e9, " billion"],
    [1e6, " million"],
    [1e3, ",000"],
  ] as const) {
    if (value < size) continue;
    const scaled = value / size;
    return word === ",000" ? grouped(value) : `${scaled >= 100 ? Math.round(scaled) : scaled.toPrecision(3)}${word}`;
  }
  return String(Number(value.toPrecision(3)));
}
