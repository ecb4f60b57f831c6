import { type Command, Option } from "commander";
import { InputError } from "../../core/errors.ts";
import { decimalNumber, wholeNumber } from "../input/options.ts";

export function addSamplingOptions(command: Command): Command {
  const number = (name: string, description: string, initial: number) =>
    command.option(`--${name}`, description, decimalNumber(`--${name.split(" ")[0]}`), initial);
  command.optionsGroup("Sampling:");
  number("temperature <T>", "sampling temperature; 0: always the most likely token", 0);
  command.option("--top-k <N>", "sample from the N most likely tokens; 0: from all", wholeNumber("--top-k", 0), 0);
  number("top-p <P>", "sample from the most likely tokens whose probabilities sum to P", 1);
  number("min-p <P>", "exclude tokens less likely than P times the most likely token", 0);
  number("repetition-penalty <N>", "divide the logits of tokens in the prompt and output by N", 1);
  number("presence-penalty <N>", "subtract N from the logits of generated tokens", 0);
  number("frequency-penalty <N>", "subtract N from a token's logit for each time that it was generated", 0);
  return command
    .option("--logit-bias <TOKEN=N>", "add N to the logit of a token id (repeatable)", logitBias)
    .addOption(
      new Option("--seed <NS>", "random seed, one for all prompts or a comma-separated list")
        .argParser(seeds)
        .default([1], "1"),
    )
    .option(
      "--logprobs <N>",
      "show the logprobs of each token and of the N most likely ones",
      wholeNumber("--logprobs", 0),
    )
    .optionsGroup("Stop conditions:")
    .option("--stop <TEXT>", "stop at this text and remove it from the output (repeatable)", stopText)
    .option("--stop-token <ID>", "stop at this token id (repeatable)", stopToken)
    .option("--ignore-eos", "do not stop at the model's end-of-text tokens")
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
