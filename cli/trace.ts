import type { Command } from "commander";
import { grouped } from "../core/counted.ts";
import { chatOptionNames, dashed, type GenerateTraceOptions, generateTrace } from "../lab/traces/generate-trace.ts";
import { type TraceStatsOptions, traceStats } from "../lab/traces/trace-stats.ts";
import { type ChatOptions, chatDefaults } from "../traces/generate.ts";
import { addBlockSize, addTraceOptions, decimalNumber, path } from "./input/options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { statsText } from "./trace/trace-summary.ts";
import { addUnsupportedTraceCommands } from "./unsupported.ts";

const examples = `
Examples:
  kvlab trace stats trace.jsonl.gz
  kvlab trace generate chat --requests 10000 --out chat.jsonl.gz`;

export function addTrace(program: Command): void {
  const trace = program
    .command("trace")
    .description("describe and generate traces")
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
  const generate = trace
    .command("generate")
    .description("generate a trace")
    .helpCommand("help [COMMAND]", "print the help of a command");
  addChat(generate);
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

const chatOptionTexts: Readonly<Record<keyof ChatOptions, string>> = {
  requests: "number of requests",
  seed: "random seed",
  unitTokens: "tokens per content id",
  sessionsPerS: "new sessions per second",
  systemPrompts: "number of system prompts",
  systemTokens: "mean tokens of a system prompt",
  zipf: "Zipf exponent of the system prompts' use: the k-th is used k^-zipf times as often as the first",
  turns: "mean requests per session",
  userTokens: "mean tokens of a user message",
  outputTokens: "mean output tokens",
  thinkS: "mean think time between an output and the next request, in seconds",
  outputTokensPerS: "output tokens per second; their generation delays the next request",
  maxInputTokens: "longest prompt in tokens; a session ends before exceeding it",
};

function addChat(generate: Command): void {
  const chat = generate
    .command("chat")
    .description("chat sessions that share system prompts and repeat their history in each turn (Mooncake format)")
    .requiredOption("--out <FILE>", "file to write; compressed if its name ends in .gz", path("--out", "a file"))
    .option("--force", "replace the file if it exists");
  for (const name of chatOptionNames) {
    chat.option(`${dashed(name)} <N>`, chatOptionTexts[name], decimalNumber(dashed(name)), chatDefaults[name]);
  }
  chat.addHelpText("after", examples).action(generateChat);
}

async function generateChat(options: GenerateTraceOptions): Promise<void> {
  const progress = new Progress();
  try {
    const { requests } = await generateTrace({ ...options, progress: progress.follow, signal: interruption });
    progress.done();
    print(`Wrote ${grouped(requests)} requests to ${options.out}\n`);
  } finally {
    progress.done();
  }
}
