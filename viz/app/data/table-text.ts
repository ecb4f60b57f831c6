type Cell = string | number | null | undefined;

/** A table to save. */
export interface TableText {
  readonly header: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
  /** Columns of numbers, which are aligned right. */
  readonly areNumbers: readonly boolean[];
}

/** The table as CSV (RFC 4180, lines separated by \n). */
export const csvText = ({ header, rows }: TableText): string =>
  [header, ...rows].map((row) => `${row.map(csvCell).join(",")}\n`).join("");

/** A text that a spreadsheet would compute as a formula gets an apostrophe in front. */
function csvCell(cell: Cell): string {
  const text = typeof cell === "string" && /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : String(cell ?? "");
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The table as Markdown, as GitHub renders it. */
export function markdownText({ header, rows, areNumbers }: TableText): string {
  const line = (cells: readonly Cell[]) => `| ${cells.map(markdownCell).join(" | ")} |\n`;
  const rule = `| ${header.map((_, i) => (areNumbers[i] ? "---:" : "---")).join(" | ")} |\n`;
  return [line(header), rule, ...rows.map(line)].join("");
}

const markdownCell = (cell: Cell): string => oneLine(cell).replace(/[\\`*_[\]<>|$~&#]/g, (sign) => `\\${sign}`);

/** The table as a LaTeX environment that needs no package. `caption`: a comment above it. */
export function latexText({ header, rows, areNumbers }: TableText, caption = ""): string {
  const line = (cells: readonly Cell[]) => `  ${cells.map(latexCell).join(" & ")} \\\\\n`;
  const columns = header.map((_, i) => (areNumbers[i] ? "r" : "l")).join("");
  return [
    caption && `% ${oneLine(caption)}\n`,
    `\\begin{tabular}{${columns}}\n  \\hline\n`,
    line(header),
    "  \\hline\n",
    ...rows.map(line),
    "  \\hline\n\\end{tabular}\n",
  ].join("");
}

const latexSigns: Readonly<Record<string, string>> = {
  ...{ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "|": "\\textbar{}" },
  ...{ "<": "\\textless{}", ">": "\\textgreater{}", '"': "''", "’": "'" },
  ...{ "–": "--", "—": "---", "−": "$-$", "×": "$\\times$", "÷": "$\\div$", "±": "$\\pm$", "·": "$\\cdot$" },
  ...{ "≤": "$\\leq$", "≥": "$\\geq$", µ: "$\\mu$", "…": "\\ldots{}", "∞": "$\\infty$" },
};

/** Special characters are escaped, and the signs of the dashboard that pdfLaTeX's fonts lack are replaced. */
const latexCell = (cell: Cell): string =>
  oneLine(cell)
    .replace(/[&%$#_{}]|[\\~^|<>"’–—−×÷±·≤≥µ…∞]/g, (sign) => latexSigns[sign] ?? `\\${sign}`)
    // A bracket after the end of a row would be read as its spacing.
    .replace(/^\[/, "{[}");

const oneLine = (cell: Cell): string =>
  String(cell ?? "")
    .replace(/\s+/g, " ")
    .trim();
