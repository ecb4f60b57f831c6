import type { Command } from "commander";
import { grouped } from "../../core/counted.ts";
import { dashed, type GenerateTraceOptions, generateTrace } from "../../lab/traces/generate-trace.ts";
import type { Generator, Parameter } from "../../traces/generators/generator.ts";
import { defaultGenerator, generatorNamed, generators } from "../../traces/generators/registry.ts";
import { decimalNumber, path } from "../input/options.ts";
import { interruption } from "../interrupt.ts";
import { print } from "../output/print.ts";
import { Progress } from "../output/progress.ts";

/** `kvlab trace generate`, with a command for every generator. */
export function addGenerateCommands(trace: Command): void {
  const generate = trace
    .command("generate")
    .description("generate a trace")
    .helpCommand("help [COMMAND]", "print the help of a command")
    .addHelpText(
      "after",
      `
Without a command the generator is ${defaultGenerator.name}. The same options generate the same
file on every machine.

Examples:
  kvlab trace generate rag --documents 1000 --out rag.jsonl.gz
  kvlab trace generate --requests 10000 --out chat.jsonl.gz`,
    );
  for (const generator of generators) addGenerator(generate, generator);
  addDefault(generate);
}

function addGenerator(generate: Command, generator: Generator): void {
  const { name, about, source } = generator;
  addOptions(generate.command(name), generator)
    .description(about)
    .addHelpText("after", `\n${wrapped(`The workload: ${source}.`)}\n\nExamples:\n${exampleOf(name)}`)
    .action((options: GenerateTraceOptions) => writeGenerated({ ...options, generator: name } as GenerateTraceOptions));
}

/** The command without a generator's name. */
function addDefault(generate: Command): void {
  addOptions(generate.command("default", { isDefault: true, hidden: true }), defaultGenerator)
    .argument("[NAME]")
    .action((name: string | undefined, options: GenerateTraceOptions) => {
      if (name !== undefined) generatorNamed(name);
      return writeGenerated(options);
    });
}

function addOptions(command: Command, { parameters }: Generator): Command {
  command
    .requiredOption("--out <FILE>", "file to write; compressed if its name ends in .gz", path("--out", "a file"))
    .option("--force", "replace the file if it exists");
  for (const [each, parameter] of Object.entries<Parameter>(parameters))
    command.option(`${dashed(each)} <N>`, textOf(parameter), decimalNumber(dashed(each)), parameter.default);
  return command;
}

const textOf = ({ about, unit }: Parameter) => (unit === "seconds" ? `${about}, in seconds` : about);

const exampleOf = (name: string) => `  kvlab trace generate ${name} --requests 10000 --out trace.jsonl.gz`;

/** Lines of at most 80 characters. */
function wrapped(text: string): string {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines[lines.length - 1];
    if (line.length + 1 + word.length > 80) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines.join("\n");
}

async function writeGenerated(options: GenerateTraceOptions): Promise<void> {
  const progress = new Progress();
  try {
    const { requests } = await generateTrace({ ...options, progress: progress.follow, signal: interruption });
    progress.done();
    print(`Wrote ${grouped(requests)} requests to ${options.out}\n`);
  } finally {
    progress.done();
  }
}
