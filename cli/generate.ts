import { availableParallelism } from "node:os";
import { type Command, Option } from "commander";
import { defaultBackend } from "../engine/backends.ts";
import { isRandom } from "../engine/model/load.ts";
import type { TextCodec } from "../engine/model/tokenizer.ts";
import { Interrupted } from "../lab/control.ts";
import { type GenerateOptions, generate } from "../lab/generate/generate.ts";
import type { TimedCompletion } from "../lab/generate/generate-all.ts";
import { addSamplingOptions } from "./generate/generate-options.ts";
import { answerLine, logprobTable } from "./generate/generate-report.ts";
import { readPrompts } from "./generate/prompts.ts";
import { bitsOption, wholeNumber } from "./input/options.ts";
import { interruption, isEnding, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { colors } from "./output/table.ts";

const examples = `
Examples:
  kvlab generate "Once upon a time"          a model of random weights
  kvlab generate --model ./llama "Once upon a time" --max-tokens 64
  kvlab generate --model ./llama "You are kind. Hi!" "You are kind. Bye!"
  kvlab generate --model ./qwen --chat --system "Be brief." "Who are you?"
  kvlab generate --model ./llama - < prompts.txt

Of several prompts, each finds in the cache what it shares with those before it.
A dash stands for the lines of standard input, each of them a prompt.`;

const threads = new Option("--threads <N>", "of the model's operators")
  .argParser(wholeNumber("--threads", 1, 1024))
  .default(availableParallelism(), "all");

export function addGenerate(program: Command): void {
  const command = program
    .command("generate")
    .description(`text from a real model on ${defaultBackend.device}, and how much of each prompt was cached`)
    .argument("<PROMPTS...>", "prompts, answered one after the other; - reads them")
    .option("--model <MODEL>", "a folder in the Hugging Face layout, or random:NAME", "random:tiny")
    .addOption(bitsOption())
    .addOption(threads)
    .option("--max-tokens <N>", "longest answer", wholeNumber("--max-tokens", 1), 64)
    .option("--chat", "each prompt is what a user says, in the form that the model knows")
    .option("--system <TEXT>", "what the system says before it (with --chat)")
    .option("--json", "print one JSON document and nothing else");
  addSamplingOptions(command).addHelpText("after", examples).action(generateTexts);
}

/** Options of the command line. */
interface GenerateWords extends GenerateOptions {
  readonly model: string;
  readonly json?: boolean;
}

async function generateTexts(words: readonly string[], options: GenerateWords): Promise<void> {
  const { json, model } = options;
  const shown = json ? {} : { onText: print, onOutput: tell };
  const { report, interrupted } = await withEngine(() =>
    generate(() => readPrompts(words), { ...options, ...shown, signal: interruption }),
  );
  if (json) print(`${JSON.stringify(report, undefined, 2)}\n`);
  if (interrupted.length > 0) throw new Interrupted();
  if (!json && isRandom(model))
    process.stderr.write(
      `${colors.dim("A model of random weights generates meaningless text; --model FOLDER takes a real model.")}\n`,
    );
}

function tell(answer: TimedCompletion, codec: TextCodec): void {
  if (isEnding()) return;
  const table = logprobTable(answer.answer.tokens, codec);
  if (table !== undefined) print(`${table}\n`);
  process.stderr.write(`${colors.dim(answerLine(answer))}\n`);
}
