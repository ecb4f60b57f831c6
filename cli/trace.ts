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
    .description("look into traces and generate them")
    .helpCommand("help [COMMAND]", "print the help of a command")
    .addHelpText("after", examples);
  const stats = trace
    .command("stats")
    .description("describe a trace: lengths, arrivals, sessions, and how much of it is shared")
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

interface StatsWords extends TraceStatsOptions {
  readonly json?: boolean;
}

async function describe(files: readonly string[], { json, ...options }: StatsWords): Promise<void> {
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, signal: interruption };
    const { report, input, stats } = await traceStats(files, { ...options, ...control });
    progress.done();
    print(`${json ? JSON.stringify(report, undefined, 2) : statsText(input, stats)}\n`);
  } finally {
    progress.done();
  }
}

const chatOptionTexts: Readonly<Record<keyof ChatOptions, string>> = {
  requests: "requests in all",
  seed: "another seed, another trace",
  unitTokens: "tokens that a content id stands for",
  sessionsPerS: "new sessions a second",
  systemPrompts: "different system prompts",
  systemTokens: "mean length of a system prompt",
  zipf: "the k-th system prompt is k^-zipf as popular as the first",
  turns: "mean requests of a session",
  userTokens: "mean length of a user's message",
  outputTokens: "mean length of an answer",
  thinkS: "mean pause before the user's next message",
  outputTokensPerS: "how fast answers come",
  maxInputTokens: "longest prompt; a session ends before it",
};

function addChat(generate: Command): void {
  const chat = generate
    .command("chat")
    .description("chat sessions that share system prompts and send their history again each turn (Mooncake format)")
    .requiredOption("--out <FILE>", "file to write; packed if its name ends in .gz", path("--out", "a file"))
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
