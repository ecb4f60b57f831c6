import type { Command } from "commander";
import { checkPlugin, defaultRuns } from "../lab/check/check.ts";
import { checkText } from "./check/check-report.ts";
import { path, wholeNumber } from "./input/options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";

interface CheckOptions {
  readonly trace?: string;
  readonly runs: number;
  readonly seed: number;
  readonly json?: boolean;
}

export function addCheck(program: Command): void {
  program
    .command("check")
    .description("check a plug-in against all laws, and measure the cost of its operations")
    .argument("<PLUG-IN>", "plug-in file, or the name of a built-in policy or index")
    .option("--runs <N>", "cases of the longest trial; others run a fraction", wholeNumber("--runs", 1), defaultRuns)
    .option("--seed <N>", "random seed of the cases", wholeNumber("--seed", 0, 2 ** 31 - 1), 1)
    .option("--trace <FILE>", "file in the format of a trace reader, to check it with", path("--trace", "a file"))
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(check);
}

const examples = `
Exit code: 0 all laws hold, 1 a law is broken, 2 the file cannot be loaded.

Examples:
  kvlab init policy mine && kvlab check ./mine.ts
  kvlab check ./mine.ts --runs 2000 --seed 7
  kvlab check ./reader.ts --trace requests.csv
  kvlab check lru`;

async function check(file: string, { runs, seed, trace, json }: CheckOptions): Promise<void> {
  const progress = new Progress();
  try {
    const checked = await checkPlugin(file, { runs, seed, trace, progress: progress.follow, signal: interruption });
    progress.done();
    print(json ? `${JSON.stringify(checked.report, undefined, 2)}\n` : checkText(checked));
    if (!checked.report.holds) process.exitCode = 1;
  } finally {
    progress.done();
  }
}
