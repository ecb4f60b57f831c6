import type { Command } from "commander";
import { InputError } from "../../core/errors.ts";

/** Options that may be given several times. */
export const repeatable: ReadonlySet<string> = new Set([
  "explain",
  "rule",
  "efficiency",
  "scheduler-option",
  "router-option",
  "logit-bias",
  "stop",
  "stop-token",
  "sbatch",
]);

/** Makes each option of these commands that takes one value throw when it is given twice. */
export function refuseRepeated(command: Command): void {
  for (const option of command.options) {
    const name = option.long?.slice(2);
    if (name === undefined || !(option.required || option.optional) || option.variadic || repeatable.has(name))
      continue;
    let given: string | undefined;
    command.on(`option:${name}`, (value: string | null) => {
      if (given !== undefined)
        throw new InputError(`--${name} is given twice, as "${given}" and as "${value}", expected it once`);
      given = value ?? "";
    });
  }
  for (const subcommand of command.commands) refuseRepeated(subcommand);
}
