import { type Command, Option } from "commander";
import { InputError } from "../../core/errors.ts";
import { decimalNumber, wholeNumber } from "../input/options.ts";

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
