import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { families } from "../../conformance/families/index.ts";
import { runCase } from "../../conformance/run.ts";
import { caseOf } from "./cases.ts";

const text = readFileSync(new URL("../../docs/conformance.md", import.meta.url), "utf8");

test("the document lists every family with its settings, operations, inputs and expectations", () => {
  const sections = new Map(text.split("\n### ").map((section) => [section.split("\n")[0], section]));
  for (const { name, configKeys, ops } of families) {
    const section = sections.get(name) ?? "";
    expect(section, name).toContain(`Config: ${configKeys.map((key) => `\`${key}\``).join(", ") || "none"}.`);
    for (const [op, { inputs, expects }] of Object.entries(ops)) {
      const row = `| \`${op}\` | ${inputs.join(", ") || "none"} | ${Object.keys(expects).join(", ") || "nothing"} |`;
      expect(section, name).toContain(row);
    }
  }
});

test("its example passes", () => {
  const example = /```json\n([^`]+)```/.exec(text)![1];
  expect(runCase(caseOf(example))).toEqual({ verdict: "passed" });
});
