import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { defaultBackend } from "../engine/backends.ts";

/** Commands that are refused by name, with the reason. */
const unsupportedCommands: Readonly<Record<string, string>> = {
  simulate: "is called kvlab replay --target sim",
  engine: `is called kvlab replay --target ${defaultBackend.name}`,
};

const unsupportedTraceCommands: Readonly<Record<string, string>> = {
  record: "recording traces is not part of this version",
};

export const addUnsupportedCommands = (program: Command) => refuseAll(program, unsupportedCommands, "");
export const addUnsupportedTraceCommands = (trace: Command) => refuseAll(trace, unsupportedTraceCommands, "trace ");

function refuseAll(parent: Command, commands: Readonly<Record<string, string>>, prefix: string): void {
  for (const [name, reason] of Object.entries(commands)) {
    const refuse = () => {
      throw new InputError(`${prefix}${name}: ${reason}`);
    };
    const command = parent
      .command(name, { hidden: true })
      .argument("[ANYTHING...]")
      .allowUnknownOption()
      .helpOption(false)
      .action(refuse);
    // Called by `help NAME`.
    command.helpInformation = refuse;
  }
}
