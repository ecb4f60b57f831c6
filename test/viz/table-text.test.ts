import fc from "fast-check";
import { expect, test } from "vitest";
import { csvText, latexText, markdownText } from "../../viz/app/data/table-text.ts";

const table = {
  header: ["Policy & index", "Hit ratio, %"],
  rows: [
    ["a|b_c", "12.5%"],
    ["=1+2", "−3"],
    ['x, "y"\nz', undefined],
    ["\\cmd{1} #2 $3$ ~ ^", "<5 ms"],
    ["[not a length]", "1–2"],
  ],
  areNumbers: [false, true],
};

test("CSV quotes separators, and a formula is a text", () => {
  expect(csvText(table)).toBe(
    `Policy & index,"Hit ratio, %"\na|b_c,12.5%\n'=1+2,−3\n"x, ""y""\nz",\n\\cmd{1} #2 $3$ ~ ^,<5 ms\n[not a length],1–2\n`,
  );
});

test("Markdown escapes what it would interpret", () => {
  expect(markdownText(table).split("\n")).toEqual([
    "| Policy \\& index | Hit ratio, % |",
    "| --- | ---: |",
    "| a\\|b\\_c | 12.5% |",
    "| =1+2 | −3 |",
    '| x, "y" z |  |',
    "| \\\\cmd{1} \\#2 \\$3\\$ \\~ ^ | \\<5 ms |",
    "| \\[not a length\\] | 1–2 |",
    "",
  ]);
});

test("LaTeX escapes special characters", () => {
  expect(latexText(table, "Runs: 100%\n\\input{a}").split("\n")).toEqual([
    "% Runs: 100% \\input{a}",
    "\\begin{tabular}{lr}",
    "  \\hline",
    "  Policy \\& index & Hit ratio, \\% \\\\",
    "  \\hline",
    "  a\\textbar{}b\\_c & 12.5\\% \\\\",
    "  =1+2 & $-$3 \\\\",
    "  x, ''y'' z &  \\\\",
    "  \\textbackslash{}cmd\\{1\\} \\#2 \\$3\\$ \\textasciitilde{} \\textasciicircum{} & \\textless{}5 ms \\\\",
    "  {[}not a length] & 1--2 \\\\",
    "  \\hline",
    "\\end{tabular}",
    "",
  ]);
});

const cell = fc.string({ unit: fc.constantFrom(..."ab|&%_#{}$\\~^[]*<>`'\"\n ,;=") });

/** The cells of a row, at unescaped separators. */
const cellsOf = (line: string, separator: string) => {
  const cells = [""];
  for (let i = 0; i < line.length; i++) {
    if (line[i] === "\\") cells[cells.length - 1] += line[i] + line[++i];
    else if (line[i] === separator) cells.push("");
    else cells[cells.length - 1] += line[i];
  }
  return cells;
};

test("a row has the cells of the table, whatever they contain", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell), { minLength: 1, maxLength: 4 }), (rows) => {
      const each = { header: ["a", "b", "c"], rows, areNumbers: [] };
      const markdown = markdownText(each).trimEnd().split("\n");
      expect(markdown).toHaveLength(rows.length + 2);
      for (const line of markdown) expect(cellsOf(line, "|")).toHaveLength(5);
      const latex = latexText(each).trimEnd().split("\n").slice(4, -2);
      expect(latex).toHaveLength(rows.length);
      for (const line of latex) {
        expect(cellsOf(line, "&")).toHaveLength(3);
        expect(line.slice(0, -2)).not.toMatch(/(^|[^\\])(\\\\)*\\\\/);
        expect(cellsOf(line, "%")).toHaveLength(1);
      }
    }),
  );
});
