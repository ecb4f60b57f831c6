import type { Command } from "commander";
import type { BackendName } from "../engine/backends.ts";
import { isRandom } from "../engine/model/load.ts";
import type { TextCodec } from "../engine/model/tokenizer.ts";
import { Interrupted } from "../lab/control.ts";
import { type GenerateOptions, generate } from "../lab/generate/generate.ts";
import type { TimedCompletion } from "../lab/generate/generate-all.ts";
import { addSamplingOptions } from "./generate/generate-options.ts";
import { logprobTable, statusLine } from "./generate/generate-report.ts";
import { readPrompts } from "./generate/prompts.ts";
import { bitsOption, engineTargetOption, wholeNumber } from "./input/options.ts";
import { interruption, isEnding, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { colors } from "./output/table.ts";

const examples = `
Examples:
  kvlab generate "Once upon a time"          a model with random weights
  kvlab generate --model ./llama "Once upon a time" --max-tokens 64
  kvlab generate --model ./llama "You are kind. Hi!" "You are kind. Bye!"
  kvlab generate --model ./qwen --chat --system "Be brief." "Who are you?"
  kvlab generate --model ./llama - < prompts.txt

All prompts share one cache: each reuses the prefix that it has in common with
earlier ones. A dash reads prompts from standard input, one per line.`;

export function addGenerate(program: Command): void {
  const command = program
    .command("generate")
    .description("generate text with a real model and show how much of each prompt was cached")
    .argument("<PROMPTS...>", "prompts, completed one after the other; - reads standard input")
    .option("--model <MODEL>", "model folder (Hugging Face layout), or random:NAME for random weights", "random:tiny")
    .addOption(engineTargetOption("generate runs a model"))
    .addOption(bitsOption())
    .option("--threads <N>", "threads of the model's operators (default: all)", wholeNumber("--threads", 1, 1024))
    .option("--max-tokens <N>", "most output tokens for each prompt", wholeNumber("--max-tokens", 1), 64)
    .option("--chat", "format each prompt as a user message with the model's chat template")
    .option("--system <TEXT>", "system message before each prompt (with --chat)")
    .option("--json", "print one JSON document and nothing else");
  addSamplingOptions(command).addHelpText("after", examples).action(generateTexts);
}

interface GenerateCommandOptions extends Omit<GenerateOptions, "backend"> {
  readonly target: BackendName;
  readonly model: string;
  readonly json?: boolean;
}

async function generateTexts(prompts: readonly string[], given: GenerateCommandOptions): Promise<void> {
  const { json, target: backend, ...options } = given;
  const { model } = options;
  const shown = json ? {} : { onText: print, onOutput: printStatus };
  const { report, interrupted } = await withEngine(() =>
    generate(() => readPrompts(prompts), { ...options, ...shown, backend, signal: interruption }),
  );
  if (json) print(`${JSON.stringify(report, undefined, 2)}\n`);
  if (interrupted.length > 0) throw new Interrupted();
  if (!json && isRandom(model))
    process.stderr.write(
      `${colors.dim("A model with random weights generates meaningless text; --model FOLDER runs a real model.")}\n`,
    );
}

function printStatus(output: TimedCompletion, codec: TextCodec): void {
  if (isEnding()) return;
  const table = logprobTable(output.completion.tokens, codec);
  if (table !== undefined) print(`${table}\n`);
  process.stderr.write(`${colors.dim(statusLine(output))}\n`);
}
