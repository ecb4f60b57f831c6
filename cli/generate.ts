import { availableParallelism } from "node:os";
import { type Command, Option } from "commander";
import { InputError } from "../core/errors.ts";
import { defaultBackend } from "../engine/backends.ts";
import { isRandom, type LoadedModel, loadModel } from "../engine/model/load.ts";
import type { TextCodec } from "../engine/model/tokenizer.ts";
import { Interrupted } from "../lab/control.ts";
import { generateAll, type TimedCompletion } from "../lab/generate/generate-all.ts";
import { addSamplingOptions, checkTokens, type GenerateOptions, samplingOf } from "./generate/generate-options.ts";
import { answerLine, generationDocument, logprobTable } from "./generate/generate-report.ts";
import { readPrompts } from "./generate/prompts.ts";
import { bitsOption, wholeNumber } from "./input/options.ts";
import { interruption, withEngine } from "./interrupt.ts";
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
  addSamplingOptions(command).addHelpText("after", examples).action(generate);
}

async function generate(words: readonly string[], options: GenerateOptions): Promise<void> {
  if (options.system !== undefined && !options.chat) throw new InputError("--system goes with --chat");
  const sampling = samplingOf(options);
  const model = loadModel(options.model);
  try {
    checkTokens(options, model.config.vocabulary);
    const codec = await model.tokenizer();
    await checkStops(options, codec);
    const texts = await readPrompts(words);
    const prompts = await encoded(texts, codec, model, options);
    const { bits = 32, threads, maxTokens, seed, json } = options;
    const endTokens = options.ignoreEos ? [] : model.config.endTokens;
    const answers = await withEngine(() =>
      generateAll({
        ...{ model, codec, prompts, maxTokens, bits, threads, sampling, seeds: seed },
        ends: { stops: options.stop ?? [], stopTokens: options.stopToken ?? [], endTokens },
        shown: (text) => json || print(text),
        ended: (answer) => json || tell(answer, codec),
        signal: interruption,
      }),
    );
    const cut = answers.filter(({ answer }) => answer.finish === "interrupted");
    if (json) print(`${JSON.stringify(generationDocument(options, texts, prompts, answers, codec), undefined, 2)}\n`);
    else for (const answer of cut) if (answer.answer.tokens.length > 0) tell(answer, codec);
    if (cut.length > 0) throw new Interrupted();
    if (!json && isRandom(options.model))
      process.stderr.write(
        `${colors.dim("Random weights write nothing that means anything; --model FOLDER takes a real model.")}\n`,
      );
  } finally {
    model.close();
  }
}

function tell(answer: TimedCompletion, codec: TextCodec): void {
  const table = logprobTable(answer.answer.tokens, codec);
  if (table !== undefined) print(`${table}\n`);
  process.stderr.write(`${colors.dim(answerLine(answer))}\n`);
}

/** @throws InputError if a stop text is nothing that an answer's text can have */
async function checkStops({ stop = [] }: GenerateOptions, codec: TextCodec): Promise<void> {
  for (const text of stop) {
    const tokens = await codec.encode(text);
    if (text.trim() !== "" && codec.decode(tokens) === "")
      throw new InputError(
        `--stop "${text}" is a special token, which is left out of an answer's text; give --stop-token ${tokens.at(-1)}`,
      );
  }
}

/** @throws InputError naming the prompt that is empty or too long */
async function encoded(
  texts: readonly string[],
  codec: TextCodec,
  { config: { maxPositions } }: LoadedModel,
  { chat, system, maxTokens }: GenerateOptions,
): Promise<Int32Array[]> {
  const prompts: Int32Array[] = [];
  for (const [i, text] of texts.entries()) {
    const said = [
      ...(system === undefined ? [] : [{ role: "system" as const, content: system }]),
      { role: "user" as const, content: text },
    ];
    const tokens = await (chat ? codec.encodeChat(said) : codec.encode(text));
    const what = texts.length === 1 ? "the prompt" : `prompt ${i + 1}`;
    if (tokens.length === 0) throw new InputError(`${what} is empty, expected text`);
    if (tokens.length + maxTokens > maxPositions)
      throw new InputError(
        `${what} has ${tokens.length} tokens, with ${maxTokens} of its answer more than the model's ${maxPositions}`,
      );
    prompts.push(tokens);
  }
  return prompts;
}
