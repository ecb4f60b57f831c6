import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { dashed } from "../../lab/traces/generate-trace.ts";
import { common } from "../../traces/generators/generator.ts";
import { generators } from "../../traces/generators/registry.ts";
import { traceFormats } from "../../traces/open.ts";

/** The rows below a table's header. */
function rowsBelow(document: string, header: string): string[] {
  const lines = readFileSync(document, "utf8").split("\n");
  const first = lines.findIndex((line) => line.startsWith(header)) + 2;
  return lines.slice(
    first,
    lines.findIndex((line, i) => i >= first && !line.startsWith("|")),
  );
}

/** The names in the first cell of a row. */
const namesOf = (row: string) => [...row.split("|")[1].matchAll(/`([^`]+)`/g)].map(([, name]) => name);

test("the table of generators in docs/traces.md is the one of their declarations", () => {
  const declared = generators
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, about, source, parameters }) => {
      const options = Object.entries(parameters)
        .filter(([option]) => !(option in common))
        .map(([option, parameter]) => `\`${dashed(option)}\` (${parameter.default})`);
      return `| \`${name}\` | ${about} | ${source} | ${options.join(", ")} |`;
    });
  expect(rowsBelow("docs/traces.md", "| generator |")).toEqual(declared);
});

test("the tables of formats in docs/trace-format.md have every format, with its kinds of files and the fields that it needs", () => {
  const rows = rowsBelow("docs/trace-format.md", "| format | file | arrival");
  const ofText = rowsBelow("docs/trace-format.md", "| format | file | prompt");
  expect(rows.flatMap(namesOf).sort()).toEqual(traceFormats.map(({ name }) => name).sort());
  for (const { name, shape } of traceFormats) {
    const described = [...rows, ...ofText].filter((row) => namesOf(row).includes(name)).join("\n");
    const kinds = { csv: "CSV", parquet: "Parquet", text: "text" } as const;
    for (const kind of shape.kinds) expect(described).toContain(kind in kinds ? kinds[kind as "csv"] : "JSON");
    for (const need of shape.needs) {
      const fields = [need].flat().map((field) => field.split(".").at(-1)!.replace("[]", ""));
      expect(
        fields.filter((field) => new RegExp(`\\b${field}\\b`).test(described)),
        `${name}: ${fields.join(" or ")}`,
      ).not.toEqual([]);
    }
  }
});
