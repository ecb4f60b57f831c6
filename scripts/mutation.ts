// Mutation testing of core/ and policies/: Stryker changes a random sample of places in the sources, one at a time; on each change
// (a mutant) at least one test must fail. docs/decisions.md has the score and explains the mutants that survive.
//   npm run mutation [-- --sample N] [--seed S] [--slow] [--file FILE]…
// Results are saved in runs/mutation, and a later run tests only what has changed since. A mutant takes seconds to minutes.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { Stryker } from "@stryker-mutator/core";
import { InputError } from "../core/errors.ts";
import { keyOf, mutantsOf, mutatedFiles, rangeOf, sampleFile, sampleOf, sourcesOf } from "./mutation/mutants.ts";
import { summary } from "./mutation/summary.ts";

const incrementalFile = "runs/mutation/incremental.json";

interface IncrementalReport {
  readonly files: Record<string, { mutants: { readonly status: string }[] }>;
}

/** Removes the mutants that were not in the sample, because Stryker would not test them in a later sample. */
function keepTestedOnly(): void {
  if (!existsSync(incrementalFile)) return;
  const report = JSON.parse(readFileSync(incrementalFile, "utf8")) as IncrementalReport;
  for (const file of Object.values(report.files)) {
    file.mutants = file.mutants.filter(({ status }) => status !== "CompileError");
  }
  writeFileSync(incrementalFile, JSON.stringify(report));
}

const { values } = parseArgs({
  options: {
    sample: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    slow: { type: "boolean", default: false },
    file: { type: "string", multiple: true },
  },
});

const wholeNumber = (option: "sample" | "seed"): number => {
  const value = Number(values[option]);
  if (Number.isInteger(value) && value >= 0) return value;
  throw new InputError(`--${option} is "${values[option]}", expected a whole number`);
};

const mutants = await mutantsOf(sourcesOf(values.file ?? mutatedFiles()));
const sample = sampleOf(mutants, wholeNumber("sample"), wholeNumber("seed"));
console.log(`${sample.length} of ${mutants.length} mutants, seed ${values.seed}`);

mkdirSync(dirname(sampleFile), { recursive: true });
const keys = new Set(sample.map((mutant) => keyOf(mutant)));
writeFileSync(sampleFile, JSON.stringify([...keys]));
keepTestedOnly();

if (values.slow) process.env["KVLAB_MUTATION_SLOW"] = "1"; // read by Stryker's processes
const results = await new Stryker({
  mutate: sample.map(rangeOf),
  testRunner: "vitest",
  vitest: { configFile: "scripts/mutation/vitest.config.ts" },
  plugins: ["@stryker-mutator/vitest-runner", "./scripts/mutation/plugins.ts"],
  checkers: ["sample"],
  // The plug-ins are TypeScript, and every process of Stryker loads all plug-ins.
  checkerNodeArgs: ["--import", "tsx"],
  testRunnerNodeArgs: ["--import", "tsx"],
  ignorePatterns: ["dist", "runs", "coverage"],
  disableTypeChecks: false,
  incremental: true,
  incrementalFile,
  concurrency: 1,
  coverageAnalysis: "perTest",
  timeoutMS: 30_000,
  dryRunTimeoutMinutes: 60,
  reporters: ["lines"],
  allowConsoleColors: false,
}).runMutationTest();
keepTestedOnly();
rmSync(sampleFile);

console.log(summary(results.filter((result) => keys.has(keyOf(result, 1)))));
