import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Command } from "commander";
import { grouped } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { CacheReplay } from "../core/replica/replay.ts";
import type { TraceSource } from "../core/trace/trace.ts";
import { breathe } from "../lab/control.ts";
import type { TraceReading } from "../lab/input.ts";
import { openTrace } from "../lab/input.ts";
import { checkWritable, removeEmpty } from "../lab/output/run-directory.ts";
import { blockTokensFor, defaultParts, partsNamed } from "../lab/run/configuration.ts";
import { type ChatOptions, chatDefaults, chatSource } from "../traces/generate.ts";
import { traceStats } from "../traces/stats.ts";
import { replaceable, writeMooncake } from "../traces/write-mooncake.ts";
import { addBlockSize, addTraceOptions, decimalNumber, path } from "./input/options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { statsText } from "./trace/trace-summary.ts";
import { addLaterTraceCommands } from "./unsupported.ts";

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
  addLaterTraceCommands(trace);
}

interface StatsOptions extends TraceReading {
  readonly blockSize?: number;
  readonly json?: boolean;
}

async function describe(files: readonly string[], options: StatsOptions): Promise<void> {
  const progress = new Progress();
  try {
    const input = await openTrace(files, { ...options, progress: progress.follow, signal: interruption });
    const { trace } = input;
    progress.state("counting");
    const parts = await partsNamed(defaultParts, {});
    const blockTokens = blockTokensFor(trace, options.blockSize);
    const stats = traceStats(
      trace,
      CacheReplay.blockKeys({ ...parts, blockTokens, blocks: undefined, seed: 1 }, trace),
    );
    progress.done();
    const document = { schema: "trace-stats/1", files: input.files, format: input.format, ...stats };
    const shown = options.json
      ? JSON.stringify(document, (_, value) => (value === undefined ? null : value), 2)
      : statsText(input, stats);
    print(`${shown}\n`);
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

const chatOptionNames = Object.keys(chatOptionTexts) as (keyof ChatOptions)[];
const dashed = (name: string) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

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

interface GenerateOptions extends ChatOptions {
  readonly out: string;
  readonly force?: boolean;
}

async function generateChat(options: GenerateOptions): Promise<void> {
  const { out, force } = options;
  const source = chatOf(options);
  await checkWritable(out, dirname(out));
  await replaceable(out);
  if (existsSync(out) && !force) throw new InputError(`${out}: exists already; --force replaces it`);
  const progress = new Progress();
  const folder = resolve(dirname(out));
  const made = await mkdir(folder, { recursive: true });
  try {
    await writeMooncake(counted(source, progress), out);
  } catch (error) {
    if (made) await removeEmpty(folder, made);
    throw error;
  } finally {
    progress.done();
  }
  print(`Wrote ${grouped(options.requests)} requests to ${out}\n`);
}

/** @throws InputError naming the option as the command line has it. */
function chatOf(options: GenerateOptions): TraceSource {
  try {
    return chatSource(Object.fromEntries(chatOptionNames.map((name) => [name, options[name]])));
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    const name = chatOptionNames.find((option) => error.message.startsWith(`${option} `));
    throw name ? new InputError(dashed(name) + error.message.slice(name.length)) : error;
  }
}

function counted(source: TraceSource, progress: Progress): TraceSource {
  return {
    ...source,
    async *batches() {
      let requests = 0;
      for await (const batch of source.batches()) {
        await breathe(interruption);
        yield batch;
        progress.state(`${grouped((requests += batch.requestCount))} requests`);
      }
    },
  };
}
