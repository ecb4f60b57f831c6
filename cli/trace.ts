import type { Command } from "commander";
import { type ReadFormat, readFormats } from "../lab/traces/read-formats.ts";
import { type TraceStatsOptions, traceStats } from "../lab/traces/trace-stats.ts";
import { addBlockSize, addTraceOptions, path } from "./input/options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { colors, wrapped } from "./output/table.ts";
import { addFetch } from "./trace/fetch-command.ts";
import { addGenerateCommands } from "./trace/generate-commands.ts";
import { statsText } from "./trace/trace-summary.ts";
import { addAnonymize, addConvert } from "./trace/write-commands.ts";
import { addUnsupportedTraceCommands } from "./unsupported.ts";

const examples = `
Examples:
  kvlab trace stats trace.jsonl.gz --plots plots
  kvlab trace convert trace.jsonl.gz trace.parquet
  kvlab trace generate rag --requests 10000 --out rag.jsonl.gz`;

const statsExplained = `
Percentiles are by nearest rank: p90 is the smallest value that at least 90 % of
the values do not exceed. They are values that occur, never between two values.
`;

export function addTrace(program: Command): void {
  const trace = program
    .command("trace")
    .description("describe, generate, convert, anonymize and fetch traces")
    .helpCommand("help [COMMAND]", "print the help of a command")
    .addHelpText("after", examples);
  const stats = trace
    .command("stats")
    .description("statistics of a trace: lengths, arrivals, sessions and shared content")
    .argument("[TRACE...]", 'trace files; none, or "example": the built-in example');
  addTraceOptions(addBlockSize(stats))
    .option("--plots <FOLDER>", "write plots to this folder, as SVG", path("--plots", "a folder"))
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", statsExplained + examples)
    .action(describe);
  trace
    .command("formats")
    .description("list the formats that are read, with the fields that they need")
    .option("--json", "print one JSON document and nothing else")
    .action(({ json }: { json?: boolean }) => {
      const formats = readFormats();
      print(`${json ? JSON.stringify({ schema: "trace-formats/1", formats }, undefined, 2) : formatsText(formats)}\n`);
    });
  addGenerateCommands(trace);
  addConvert(trace);
  addAnonymize(trace);
  addFetch(trace);
  addUnsupportedTraceCommands(trace);
}

function formatsText(formats: readonly ReadFormat[]): string {
  const texts = formats.map(({ name, about, source, files, needs }) => {
    const fields = needs.length > 0 ? ` with ${needs.join(", ")}` : "";
    const lines = [about, `${files.join(" or ")}${fields}`, source].map((text) => `  ${wrapped(text, 2, 2)}`);
    return `${colors.bold(name)}\n${lines.join("\n")}`;
  });
  return texts.join("\n");
}

interface StatsCommandOptions extends TraceStatsOptions {
  readonly json?: boolean;
}

async function describe(files: readonly string[], { json, ...options }: StatsCommandOptions): Promise<void> {
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const described = await traceStats(files, { ...options, ...control });
    progress.done();
    print(`${json ? JSON.stringify(described.report, undefined, 2) : statsText(described)}\n`);
  } finally {
    progress.done();
  }
}
