import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import type { Plugin } from "../core/plugins/index.ts";
import type { Registry } from "../policies/registry.ts";

/** Commands of versions to come: whoever calls them is told so. */
const laterCommands: Readonly<Record<string, string>> = {
  simulate: "is called kvlab replay --target sim",
  engine: "is called kvlab replay --target cpu",
  serve: "a server is not part of this version",
};

const laterTraceCommands: Readonly<Record<string, string>> = {
  convert: "converting traces is not part of this version",
  record: "recording traces is not part of this version",
  anonymize: "anonymizing traces is not part of this version",
};

/** Parts of versions to come. */
const laterParts: Readonly<Record<string, readonly string[]>> = {
  eviction: [
    ...["s3fifo", "s3-fifo", "arc", "2q", "sieve", "clock", "tinylfu", "w-tinylfu"],
    ...["gdsf", "lru-k", "lirs", "lfu-da", "cost"],
  ],
  allocator: ["radix", "page"],
};

/** A part by its name. @throws InputError if there is none; of versions to come it says so. */
export function partNamed<P extends Plugin>(registry: Registry<P>, option: string, name: string): P {
  const names = registry.all.map((plugin) => plugin.name);
  if (!names.includes(name) && laterParts[option]?.includes(name))
    throw new InputError(`--${option} ${name}: not part of this version; there is: ${names.join(", ")}`);
  return registry.get(name);
}

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
