import { join } from "node:path";
import type { Command } from "commander";
import { counted, grouped } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { quoted } from "../lab/output/command-line.ts";
import { runsFolder } from "../lab/output/save.ts";
import { planSweep, type SweepReport, sweep } from "../lab/sweep/sweep.ts";
import { readSweepFile, type SweepFile } from "../lab/sweep/sweep-file.ts";
import { path, wholeNumber } from "./input/options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { aligned } from "./output/table.ts";
import { configurationsOf, wordsOf } from "./sweep/swept-options.ts";

interface SweepCommandOptions {
  readonly out?: string;
  readonly on: string;
  readonly workers?: number;
  readonly shardSize?: number;
  readonly retries: number;
  readonly sbatch?: readonly string[];
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab sweep sweep.yaml                        on all processors
  kvlab sweep sweep.yaml --dry-run              what it would run
  kvlab sweep sweep.yaml --on slurm --sbatch=--partition=long
  kvlab sweep sweep.yaml --on redis://10.0.0.5:6379
  kvlab dashboard runs/sweep                    the results in the browser

A sweep file, YAML or JSON:
  trace: trace.jsonl.gz
  options: {preset: vllm, limit: 1000}
  vary:
    eviction: [lru, lfu, ./mine.ts]
    blocks: {from: 1%, to: 50%, count: 8, scale: log}
    rule.free-order: [reverse, forward]
  sample: {latin-hypercube: 100, seed: 1}       without it: all combinations

Options are those of kvlab replay; paths are relative to the current folder.
A result is a folder named by a hash of its configuration, so the same command
resumes a sweep. Exit code: 0 if every configuration has a result, 1 if not.`;

export function addSweep(program: Command): void {
  program
    .command("sweep")
    .description("run many configurations: on this machine, on a Slurm cluster, or by workers that share a Redis")
    .argument("<FILE>", "sweep file: YAML or JSON")
    .option("--out <DIR>", `folder of the results (default: ${runsFolder}/NAME)`, path("--out", "a folder"))
    .option("--on <WHERE>", "local, slurm, or the address of a Redis: redis://HOST:PORT", where, "local")
    .option("--workers <N>", "local worker processes (default: one per processor)", wholeNumber("--workers", 1, 1024))
    .option("--shard-size <N>", "configurations that a worker gets at once", wholeNumber("--shard-size", 1, 10_000))
    .option("--retries <N>", "new runs of a configuration whose worker ended", wholeNumber("--retries", 0, 100), 3)
    .option(
      "--sbatch <OPTION>",
      "with --on slurm: an option of sbatch, such as --sbatch=--partition=long (repeatable)",
      (text: string, before: readonly string[] = []) => [...before, text],
    )
    .option("--dry-run", "print the number of configurations and the first ones")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(runSweep);
}

function where(text: string): string {
  if (text === "local" || text === "slurm" || /^rediss?:\/\/./.test(text)) return text;
  throw new InputError(`--on is "${text}", expected local, slurm, or an address such as redis://127.0.0.1:6379`);
}

async function runSweep(file: string, options: SweepCommandOptions): Promise<void> {
  checkConflicts(options);
  const read = await readSweepFile(file);
  const configurations = await configurationsOf(read);
  const progress = new Progress();
  const control = { progress: progress.follow, note: progress.note, signal: interruption };
  try {
    if (options.dryRun) {
      const { distinct } = await planSweep(configurations, control);
      progress.done();
      return print(`${dryRun(read, distinct.size, options)}\n`);
    }
    const { json, dryRun: _, ...others } = options;
    const out = options.out ?? join(runsFolder, read.name);
    const report = await sweep(configurations, { ...others, ...control, out });
    progress.done();
    print(`${json ? JSON.stringify(report, undefined, 2) : summary(report, options)}\n`);
    if (report.failed.length > 0) process.exitCode = failed;
  } finally {
    progress.done();
  }
}

/** Exit code if configurations have no result. */
const failed = 1;

function checkConflicts({ on, workers, sbatch }: SweepCommandOptions): void {
  if (on !== "local" && workers !== undefined)
    throw new InputError(
      `--workers needs --on local: with --on ${on === "slurm" ? on : "redis"} others start the workers`,
    );
  if (on !== "slurm" && sbatch !== undefined) throw new InputError("--sbatch needs --on slurm");
}

const mostShown = 5;

function dryRun({ name, configurations }: SweepFile, distinct: number, { json }: SweepCommandOptions): string {
  const commandOf = ({ trace, options }: SweepFile["configurations"][number]) =>
    ["kvlab", "replay", ...trace, ...wordsOf(options)].map(quoted).join(" ");
  const first = configurations.slice(0, mostShown).map(commandOf);
  if (json)
    return JSON.stringify(
      { schema: "sweep-plan/1", name, configurations: configurations.length, distinct, first },
      undefined,
      2,
    );
  const more = configurations.length - first.length;
  return [
    countedDistinct(configurations.length, distinct),
    ...first.map((command) => `  ${command}`),
    ...(more > 0 ? [`  and ${grouped(more)} more`] : []),
  ].join("\n");
}

const countedDistinct = (listed: number, distinct: number) =>
  `${counted(listed, "configuration")}${distinct < listed ? `, ${grouped(distinct)} different` : ""}`;

function summary(report: SweepReport, { on }: SweepCommandOptions): string {
  const { configurations, distinct, run, reused, folder, table } = report;
  const facts = [
    ["run", grouped(run)],
    ["had a result", grouped(reused)],
    ["failed", grouped(report.failed.length)],
  ];
  return [
    `${countedDistinct(configurations, distinct)}, on ${on === "local" ? "this machine" : on === "slurm" ? on : "redis"}`,
    aligned(facts, "lr"),
    ...failures(report),
    `Saved in ${folder}; table: ${table}`,
    `kvlab dashboard ${quoted(folder)} shows the results.`,
  ].join("\n");
}

/** Each message once, with the number of configurations that have it. */
function failures({ failed }: SweepReport): string[] {
  const counts = new Map<string, { count: number; varied: string }>();
  for (const { error, varied } of failed) {
    const known = counts.get(error) ?? { count: 0, varied: wordsOf(varied).join(" ") };
    counts.set(error, { ...known, count: known.count + 1 });
  }
  const lines = [...counts].slice(0, mostShown).map(([error, { count, varied }]) => {
    const others = count > 1 ? ` (and ${grouped(count - 1)} others)` : "";
    return `  ${error.replace(/\s*\n\s*/g, " ")}${varied || others ? `\n    ${varied}${others}` : ""}`;
  });
  const more = counts.size - lines.length;
  return lines.length === 0 ? [] : ["Failed:", ...lines, ...(more > 0 ? [`  and ${grouped(more)} other errors`] : [])];
}
