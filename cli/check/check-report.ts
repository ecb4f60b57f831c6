import { counted, grouped } from "../../core/counted.ts";
import type { Checked } from "../../lab/check/check.ts";
import { calledAs } from "../../lab/package.ts";
import { kinds } from "../../lab/user-plugins/kinds.ts";
import type { Finding } from "../../laws/check-plugin.ts";
import type { Growth } from "../../laws/cost.ts";
import type { Shape, ShapeGrowth } from "../../laws/index-cost.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

export function checkText(checked: Checked): string {
  const { findings, plugin, file, trace, runs, seed, growth, indexGrowth } = checked;
  const kind = kinds[checked.kind].label.replace(/^an? /, "");
  const broken = findings.filter(({ result }) => result === "broken");
  const shownName = plugin.name === file ? plugin.name : `${plugin.name} (${file})`;
  const sections = [
    `${kind} ${shownName}, ${counted(runs, "case")}, seed ${seed}`,
    findings.map(row).join("\n"),
    ...(growth ? [costText(growth)] : []),
    ...(indexGrowth ?? []).map(blockCostText),
    ...broken.map(failure),
    broken.length === 0
      ? "All tried laws hold."
      : `${counted(broken.length, "law")} broken. Rerun: ${calledAs()} check ${file}${trace === undefined ? "" : ` --trace ${trace}`} --runs ${runs} --seed ${seed}`,
  ];
  return `${sections.join("\n\n")}\n`;
}

const marks = { holds: colors.green("✓"), broken: colors.red("✗"), "not-tried": colors.dim("–") } as const;

function row({ law, result, message }: Finding): string {
  const reason = result === "not-tried" ? ` (not tried: ${message})` : "";
  return `  ${marks[result]} ${wrapped(law.statement + reason, 4, 4)}`;
}

function failure({ law, message = "", counterexample, calls = [] }: Finding): string {
  const lines = [`${marks.broken} ${colors.bold(wrapped(law.statement, 2, 2))}`, `  ${wrapped(message, 2, 2)}`];
  if (counterexample !== undefined) {
    lines.push("");
    for (const line of counterexample.split("\n")) lines.push(`  ${wrapped(line, 4, 2)}`);
  }
  const titles = calls.length > 1 ? ["calls, first run:  ", "calls, second run: "] : ["calls: "];
  calls.forEach((text, i) => {
    lines.push(`  ${titles[i]}${wrapped(text, 4, 2 + titles[i].length)}`);
  });
  return lines.join("\n");
}

function costText({ costs, exponent }: Growth): string {
  const rows = costs.map(({ entries, nsPerOperation }) => [
    `${grouped(entries)} entries`,
    `${grouped(nsPerOperation)} ns`,
  ]);
  const growthText = `with n entries proportional to n^${exponent.toFixed(1)}`;
  return `${wrapped(`Cost of an operation on this machine (${growthText}):`, 0)}\n${aligned(rows, "rr")}`;
}

const shapes: Readonly<Record<Shape, string>> = {
  prompts: "Cost of a prompt block in a full cache on this machine",
  siblings: "The same, if all prompts diverge after their first block",
};

function blockCostText({ shape, costs, exponent }: ShapeGrowth): string {
  const rows = costs.map(({ blocks, nsPerBlock }) => [`${grouped(blocks)} blocks`, `${grouped(nsPerBlock)} ns`]);
  const growthText = `with n blocks proportional to n^${exponent.toFixed(1)}`;
  return `${wrapped(`${shapes[shape]} (${growthText}):`, 0)}\n${aligned(rows, "rr")}`;
}
