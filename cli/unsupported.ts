import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { defaultBackend } from "../engine/backends.ts";

/** Commands that are refused by name, with the reason. */
const laterCommands: Readonly<Record<string, string>> = {
  simulate: "is called kvlab replay --target sim",
  engine: `is called kvlab replay --target ${defaultBackend.name}`,
  serve: "a server is not part of this version",
};

const laterTraceCommands: Readonly<Record<string, string>> = {
  convert: "converting traces is not part of this version",
  record: "recording traces is not part of this version",
  anonymize: "anonymizing traces is not part of this version",
};

export const addLaterCommands = (program: Command) => refuseAll(program, laterCommands, "");
export const addLaterTraceCommands = (trace: Command) => refuseAll(trace, laterTraceCommands, "trace ");

function refuseAll(parent: Command, commands: Readonly<Record<string, string>>, called: string): void {
  for (const [name, why] of Object.entries(commands)) {
    const refuse = () => {
      throw new InputError(`${called}${name}: ${why}`);
    };
    const command = parent
      .command(name, { hidden: true })
      .argument("[ANYTHING...]")
      .allowUnknownOption()
      .helpOption(false)
      .action(refuse);
    // What `help NAME` asks for.
    command.helpInformation = refuse;
  }
}
