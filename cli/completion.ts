import tab from "@bomb.sh/tab/commander";
import type { Command } from "commander";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  type Registry,
  routerRegistry,
  schedulerRegistry,
} from "../policies/registry.ts";
import { hardwareNames } from "../sim/cost/hardware.ts";
import { modelNames } from "../sim/cost/models.ts";

const names = (registry: Registry<{ readonly name: string; readonly about: string; readonly source: string }>) =>
  registry.all.map(({ name, about }): Candidate => [name, about]);

type Candidate = readonly [value: string, description: string];

/** Completion values by option name, the same in every command. */
const values: Readonly<Record<string, () => readonly Candidate[]>> = {
  preset: () => names(presetRegistry),
  index: () => names(indexRegistry),
  eviction: () => names(evictionRegistry),
  allocator: () => names(allocatorRegistry),
  scheduler: () => names(schedulerRegistry),
  router: () => names(routerRegistry),
  gpu: () => hardwareNames.map((name) => [name, ""]),
  model: () => modelNames.map((name) => [name, ""]),
};

/** Adds `kvlab completion SHELL`, which prints a script that completes commands, options and their values. */
export function addCompletion(kvlab: Command): void {
  const completion = tab(kvlab, { completionCommandName: "completion" });
  for (const command of completion.commands.values())
    for (const [name, candidates] of Object.entries(values)) {
      const option = command.options.get(name);
      if (option !== undefined)
        option.handler = (complete) => {
          for (const [value, description] of candidates()) complete(value, description);
        };
    }
  kvlab.commands
    .find((command) => command.name() === "completion")
    ?.description("print a completion script for a shell")
    .addHelpText("after", examples);
}

const examples = `
Examples:
  source <(kvlab completion bash)              for the current shell
  kvlab completion zsh > ~/.zfunc/_kvlab       in a folder of $fpath
  kvlab completion fish > ~/.config/fish/completions/kvlab.fish`;
