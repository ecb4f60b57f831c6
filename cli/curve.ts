import { type Command, Option } from "commander";
import { InputError } from "../core/errors.ts";
import { hitRatioCurves } from "../lab/curve/curves.ts";
import type { TraceReading } from "../lab/input.ts";
import { type Metric, metrics } from "../lab/output/hit-ratios.ts";
import type { Capacity } from "../lab/run/capacity.ts";
import { defaultParts } from "../lab/run/configuration.ts";
import { curveTable } from "./curve/curve-table.ts";
import {
  addBlockSize,
  addTraceOptions,
  commaList,
  parseMetric,
  parsePresets,
  parseRuleLists,
  parseSize,
  path,
  rule,
  seedsOption,
  wholeNumber,
} from "./input/options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";

interface CurveCommandOptions extends TraceReading {
  readonly preset?: readonly string[];
  readonly index?: readonly string[];
  readonly eviction?: readonly string[];
  readonly rule?: readonly string[];
  readonly blocks?: readonly Exclude<Capacity, "unlimited">[];
  readonly blockSize?: number;
  readonly warmup: number;
  readonly seed: readonly number[];
  readonly metric?: Metric;
  readonly bound?: boolean;
  readonly sample?: number;
  readonly threads?: number;
  readonly out?: string;
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab curve trace.jsonl.gz
  kvlab curve trace.jsonl.gz --eviction lru,s3-fifo,arc --bound
  kvlab curve trace.jsonl --index hash-table,radix-tree --blocks 1000,10000,50%
  kvlab curve trace.jsonl.gz --eviction s3-fifo --sample 10%
  kvlab curve trace.jsonl.gz --out curves
  kvlab curve trace.jsonl.gz --preset vllm,sglang
  kvlab curve trace.jsonl.gz --rule free-order=reverse,forward --seed 1,2,3

lru and lru-deepest in a hash table, a block trie or a radix tree need one pass
over the trace for all sizes; other combinations are replayed once for each
size, in parallel. Both give the hit ratios of kvlab replay. docs/curve.md has
the proof and the rules with which it holds.

Curves that differ only in the order of ties (--rule free-order) or in the seed
are shown as one band; --json has each of them.`;

export function addCurve(program: Command): void {
  const command = program
    .command("curve")
    .description("hit ratio by cache size (miss-ratio curves) in one table")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example')
    .option("--preset <NAMES>", "presets of real systems (all: every preset)", parsePresets)
    .option(
      "--index <NAMES>",
      `prefix indexes, or plug-in files (default: ${defaultParts.index}, or the preset's)`,
      list("--index"),
    )
    .option(
      "--eviction <NAMES>",
      `eviction policies, or plug-in files (default: ${defaultParts.eviction}, or the preset's)`,
      list("--eviction"),
    )
    .option("--rule <NAME=VALUES>", "values of a reuse rule (repeatable)", rule)
    .option(
      "--blocks <SIZES>",
      "sizes in blocks, or percentages of the distinct blocks (default: 25 sizes from 0.1% to 100%)",
      sizes,
    )
    .option(
      "--sample <SHARE>",
      "estimate from a share of the groups of requests that share content, such as 10%, with a 95 % interval",
      parseShare,
    )
    .option("--bound", "add the offline bound, which no eviction policy exceeds");
  addTraceOptions(addBlockSize(command))
    .option("--warmup <N>", "leading requests that are served but not measured", wholeNumber("--warmup", 0), 0)
    .addOption(seedsOption("policies and (the first one) of the sample"))
    .addOption(
      new Option(
        "--metric <NAME>",
        `hit ratio of the table: ${metrics.join(", ")} (default: block; token for presets)`,
      ).argParser(parseMetric),
    )
    .option(
      "--threads <N>",
      "most threads of replays (default: those of the machine, if worth it)",
      wholeNumber("--threads", 1, 1024),
    )
    .option("--out <DIR>", "write curves.json, curves.parquet and curves.svg to DIR", path("--out", "a folder"))
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(curve);
}

const list = (option: string) => (text: string) => commaList(option, text);

const sizes = (text: string) =>
  commaList("--blocks", text).map((size) => {
    if (size !== "unlimited") return parseSize(size);
    throw new InputError("--blocks contains unlimited, expected sizes; 100% contains every block of the trace");
  });

/** `10%`. */
function parseShare(text: string): number {
  const percent = /^(\d+(?:\.\d+)?)%$/.exec(text)?.[1];
  if (percent !== undefined && Number(percent) > 0 && Number(percent) < 100) return Number(percent) / 100;
  throw new InputError(`--sample is "${text}", expected a percentage below 100 such as 10%`);
}

async function curve(files: readonly string[], given: CurveCommandOptions): Promise<void> {
  const { json, rule = [], ...options } = given;
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const curves = await hitRatioCurves(files, { ...options, rules: parseRuleLists(rule), ...control });
    progress.done();
    print(`${json ? JSON.stringify(curves.report, undefined, 2) : curveTable(curves)}\n`);
    if (!json && curves.files.length > 0) print(`\nSaved: ${curves.files.join(", ")}\n`);
  } finally {
    progress.done();
  }
}
