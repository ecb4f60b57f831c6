import { text } from "node:stream/consumers";
import { InputError } from "../../core/errors.ts";
import { reasonOf } from "../../engine/model/json-fields.ts";
import { Interrupted, stoppingAt } from "../../lab/control.ts";
import { interruption } from "../interrupt.ts";

/**
 * The prompts of a command line; a dash is replaced by the non-empty lines of standard input.
 *
 * @throws InputError if the dash is given twice or there are no lines
 */
export async function readPrompts(words: readonly string[]): Promise<string[]> {
  const dashes = words.filter((word) => word === "-").length;
  if (dashes === 0) return [...words];
  if (dashes > 1) throw new InputError("- is given twice, expected once: standard input is read once");
  const lines = (await standardInput()).split(/\r?\n/).filter((line) => line !== "");
  if (lines.length === 0) throw new InputError("standard input is empty, expected a prompt on each line");
  return words.flatMap((word) => (word === "-" ? lines : word));
}

async function standardInput(): Promise<string> {
  try {
    return await stoppingAt(
      interruption,
      () => process.stdin.destroy(new Interrupted()),
      () => text(process.stdin),
    );
  } catch (error) {
    if (error instanceof Interrupted) throw error;
    throw new InputError(`standard input: ${reasonOf(error)}`);
  }
}
