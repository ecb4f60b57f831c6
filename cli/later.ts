import type { Command } from "commander";
import { InputError } from "../core/errors.ts";

/** Commands of versions to come: whoever calls them is told so. */
const laterCommands: Readonly<Record<string, string>> = {
  verify: "the engine and the simulator are not part of this version",
  calibrate: "the engine is not part of this version",
  conformance: "worked cases are not part of this version",
  check: "checking a policy against every law is not part of this version; --audit checks a replay",
  experiment: "published experiments are not part of this version",
  fuzz: "searching for traces is not part of this version",
  generate: "the engine is not part of this version; kvlab trace generate writes a trace",
  serve: "the engine is not part of this version",
  dashboard: "the dashboard is not part of this version; runs are saved as Parquet",
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
    parent
      .command(name, { hidden: true })
      .argument("[ANYTHING...]")
      .allowUnknownOption()
      .helpOption(false)
      .action(() => {
        throw new InputError(`${called}${name}: ${why}`);
      });
  }
}
