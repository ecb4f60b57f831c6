import { counted, grouped } from "../../core/counted.ts";
import { rowOf, type Trace } from "../../core/trace/trace.ts";
import type { BackendName } from "../../engine/backends.ts";
import { commandFor, type Fuzzed, type KindSearched, replayCommand } from "../../lab/fuzz/fuzz-report.ts";
import type { FuzzCase } from "../../lab/fuzz/kinds.ts";
import { calledAs } from "../../lab/package.ts";
import { colors, wrapped } from "../output/table.ts";

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((total, n) => total + n, 0);

export function fuzzText(fuzzed: Fuzzed): string {
  const { backend, seed, kinds, wallMs, interrupted } = fuzzed;
  const found = kinds.filter(({ finding }) => finding).length;
  const cases = kinds.reduce((total, one) => total + one.cases, 0);
  const end = `${counted(cases, "case")}, seed ${seed}, ${(wallMs / 1000).toFixed(1)} s`;
  return [
    kinds.map((kind) => kindText(kind, backend)).join("\n"),
    `${found === 0 ? "No counterexample" : `Counterexamples in ${found} of ${kinds.length} searches`}: ${end}${interrupted ? " (interrupted)" : ""}.`,
  ].join("\n\n");
}

function kindText(searched: KindSearched, backend: BackendName): string {
  const { kind, cases, refused, decisions, finding, saved } = searched;
  const mark = finding ? colors.red("✗") : cases === 0 ? colors.dim("–") : colors.green("✓");
  const unserved = refused > 0 ? `, ${grouped(refused)} more refused as invalid configurations` : "";
  const tried = `${counted(cases, "case")}${unserved}, ${grouped(sum(decisions))} decisions`;
  const lines = [`${mark} ${wrapped(`${kind.name}: ${kind.property}`, 2, 2)}`, `  ${tried}`];
  if (finding) {
    lines.push("", `  ${wrapped(finding.message, 2, 2)}`, "");
    lines.push(...caseLines(finding).map((line) => `  ${wrapped(line, 4, 2)}`));
  }
  if (finding && saved) {
    lines.push("", `  Rerun: ${replayCommand(saved, backend).replace("kvlab", calledAs())}`);
    const command = commandFor(finding, saved);
    if (command) lines.push(`  Show it: ${command.replace("kvlab", calledAs())}`);
  }
  return lines.join("\n");
}

/** A case as lines of text. */
function caseLines({ trace, setup, operations }: FuzzCase): string[] {
  const options = Object.entries(setup).map(([name, value]) =>
    typeof value === "object"
      ? Object.entries(value as object).map(([each, of]) => `${each}=${of}`)
      : [`${name} ${value}`],
  );
  const requests = Array.from({ length: trace.requestCount }, (_, r) => requestText(trace, r));
  return [options.flat().join(", "), ...requests, ...operations.map((operation) => JSON.stringify(operation))];
}

function requestText(trace: Trace, r: number): string {
  const { arrivalNs, inputTokens, keys, generatedKeys, outputTokens, maxOutputTokens, ...others } = rowOf(trace, r);
  const prompt = trace.unitTokens === 1 ? "prompt" : `prompt of ${inputTokens} tokens, contents`;
  const output = generatedKeys
    ? `output ${Array.from(generatedKeys).join(" ") || "empty"}`
    : `output of ${outputTokens}`;
  const rest = Object.entries(others).flatMap(([name, value]) => (value > 0 ? [`${name} ${value}`] : []));
  return [
    `request ${r}: at ${arrivalNs} ns, ${prompt} ${Array.from(keys).join(" ")}`,
    `${output} (at most ${maxOutputTokens})`,
    ...rest,
  ].join(", ");
}
