import { type Command, Option } from "commander";
import { InputError } from "../../core/errors.ts";
import type { WeightBits } from "../../engine/onnx/quantized.ts";
import { checkSampling, type SamplingOptions } from "../../engine/sampling.ts";
import { decimalNumber, wholeNumber } from "../input/options.ts";

/** The options of `kvlab generate`, as given. */
export interface GenerateOptions extends SamplingWords {
  readonly model: string;
  readonly bits?: WeightBits;
  readonly chat?: boolean;
  readonly system?: string;
  readonly maxTokens: number;
  readonly threads: number;
  readonly json?: boolean;
}

/** How tokens are chosen and what ends an answer. */
interface SamplingWords {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly logitBias?: ReadonlyMap<number, number>;
  /** Of the first prompts; the last one holds for all further ones, too. */
  readonly seed: readonly number[];
  readonly logprobs?: number;
  readonly stop?: readonly string[];
  readonly stopToken?: readonly number[];
  readonly ignoreEos?: boolean;
}

export function addSamplingOptions(command: Command): Command {
  const number = (name: string, description: string, instead: number) =>
    command.option(`--${name}`, description, decimalNumber(`--${name.split(" ")[0]}`), instead);
  command.optionsGroup("How tokens are chosen:");
  number("temperature <T>", "0: always the most likely token", 0);
  command.option("--top-k <N>", "only so many of the most likely tokens; 0: all", wholeNumber("--top-k", 0), 0);
  number("top-p <P>", "only those that are so likely together", 1);
  number("min-p <P>", "only those that likely, relative to the first", 0);
  number("repetition-penalty <N>", "divides the logits of tokens that were there", 1);
  number("presence-penalty <N>", "taken off those that were written", 0);
  number("frequency-penalty <N>", "taken off for each time", 0);
  return command
    .option("--logit-bias <TOKEN=N>", "added to the logit of a token id (repeatable)", logitBias)
    .addOption(new Option("--seed <NS>", "for drawing; of each prompt, or of all").argParser(seeds).default([1], "1"))
    .option("--logprobs <N>", "show how likely each token and the N best were", wholeNumber("--logprobs", 0))
    .optionsGroup("What ends an answer:")
    .option("--stop <TEXT>", "this text, which is left out (repeatable)", stopText)
    .option("--stop-token <ID>", "this token (repeatable)", stopToken)
    .option("--ignore-eos", "not the model's own end of the text")
    .optionsGroup("Options:");
}

const seedOf = wholeNumber("--seed", 0, 2 ** 32 - 1);
const seeds = (text: string): number[] => text.split(",").map(seedOf);

/** TOKEN=NUMBER, each token once. */
function logitBias(text: string, before: ReadonlyMap<number, number> = new Map()): ReadonlyMap<number, number> {
  const [, id, value] = /^(\d+)=(.+)$/.exec(text) ?? [];
  if (id === undefined) throw new InputError(`--logit-bias is "${text}", expected TOKEN=NUMBER with a token id`);
  const token = wholeNumber("--logit-bias", 0)(id);
  if (before.has(token)) throw new InputError(`--logit-bias ${token} is given twice, expected once`);
  return new Map([...before, [token, decimalNumber(`--logit-bias ${token}`)(value)]]);
}

function stopText(text: string, before: readonly string[] = []): string[] {
  if (text === "") throw new InputError("--stop is empty, expected text");
  return [...before, text];
}

const stopToken = (text: string, before: readonly number[] = []): number[] => [
  ...before,
  wholeNumber("--stop-token", 0)(text),
];

/** @throws InputError naming the option that is out of its range */
export function samplingOf(words: SamplingWords): SamplingOptions {
  const { temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty } = words;
  const { logitBias, logprobs } = words;
  const options: SamplingOptions = {
    ...{ temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty },
    ...(logitBias && { logitBias }),
    ...(logprobs !== undefined && { logprobs }),
  };
  try {
    checkSampling(options);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    // It begins with the name of a field.
    throw new InputError(
      error.message.replace(/^\w+/, (name) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`),
    );
  }
  return options;
}

/** @throws InputError if an option names a token that the model does not have */
export function checkTokens({ logitBias, stopToken = [], logprobs = 0 }: SamplingWords, vocabulary: number): void {
  const check = (option: string, token: number) => {
    if (token < vocabulary) return;
    throw new InputError(`${option} has token ${token}, expected one below ${vocabulary}, the model's vocabulary`);
  };
  for (const token of logitBias?.keys() ?? []) check("--logit-bias", token);
  for (const token of stopToken) check("--stop-token", token);
  if (logprobs > vocabulary)
    throw new InputError(`--logprobs is ${logprobs}, expected at most ${vocabulary}, the model's vocabulary`);
}
