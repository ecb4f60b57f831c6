// Plug-ins of Stryker.
import { readFileSync } from "node:fs";
import { type Checker, CheckStatus } from "@stryker-mutator/api/check";
import type { Mutant, MutantResult } from "@stryker-mutator/api/core";
import { declareClassPlugin, PluginKind } from "@stryker-mutator/api/plugin";
import type { Reporter } from "@stryker-mutator/api/report";
import { keyOf, sampleFile } from "./mutants.ts";
import { isKilled, lineOf } from "./summary.ts";

/** Excludes the mutants that are within the range of a sampled one but not in the sample. */
class SampleChecker implements Checker {
  readonly #sample = new Set(JSON.parse(readFileSync(sampleFile, "utf8")) as string[]);

  async init(): Promise<void> {}

  /** All mutants at once: nothing is compiled. */
  async group(mutants: Mutant[]): Promise<string[][]> {
    return [mutants.map(({ id }) => id)];
  }

  async check(mutants: Mutant[]) {
    const passed = { status: CheckStatus.Passed } as const;
    const failed = { status: CheckStatus.CompileError, reason: "not in the sample" } as const;
    return Object.fromEntries(mutants.map((mutant) => [mutant.id, this.#sample.has(keyOf(mutant)) ? passed : failed]));
  }
}

/** Prints the number of mutants tested so far, and each one that survives. */
class LineReporter implements Reporter {
  #tested = 0;

  onMutantTested(result: MutantResult): void {
    if (result.status === "CompileError") return;
    this.#tested++;
    const line = isKilled(result) ? result.status : lineOf(result);
    console.log(`${this.#tested}: ${line}`);
  }
}

export const strykerPlugins = [
  declareClassPlugin(PluginKind.Checker, "sample", SampleChecker),
  declareClassPlugin(PluginKind.Reporter, "lines", LineReporter),
];
