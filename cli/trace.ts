import type { Command } from "commander";
import { type TraceStatsOptions, traceStats } from "../lab/traces/trace-stats.ts";
import { addBlockSize, addTraceOptions } from "./input/options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { addGenerateCommands } from "./trace/generate-commands.ts";
import { statsText } from "./trace/trace-summary.ts";
import { addAnonymize, addConvert } from "./trace/write-commands.ts";
import { addUnsupportedTraceCommands } from "./unsupported.ts";

const examples = `
Examples:
  kvlab trace stats trace.jsonl.gz
  kvlab trace convert trace.jsonl.gz trace.parquet
  kvlab trace generate rag --requests 10000 --out rag.jsonl.gz`;

export function addTrace(program: Command): void {
  const trace = program
    .command("trace")
    .description("describe, generate, convert and anonymize traces")
    .helpCommand("help [COMMAND]", "print the help of a command")
    .addHelpText("after", examples);
  const stats = trace
    .command("stats")
    .description("statistics of a trace: lengths, arrivals, sessions and shared content")
    .argument("[TRACE...]", 'trace files; none, or "example": the built-in example');
  addTraceOptions(addBlockSize(stats))
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(describe);
  addGenerateCommands(trace);
  addConvert(trace);
  addAnonymize(trace);
  addUnsupportedTraceCommands(trace);
}

interface StatsCommandOptions extends TraceStatsOptions {
  readonly json?: boolean;
}

async function describe(files: readonly string[], { json, ...options }: StatsCommandOptions): Promise<void> {
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const { report, input, stats } = await traceStats(files, { ...options, ...control });
    progress.done();
    print(`${json ? JSON.stringify(report, undefined, 2) : statsText(input, stats)}\n`);
  } finally {
    progress.done();
  }
}
