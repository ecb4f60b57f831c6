import type { Command } from "commander";
import { grouped } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import { dashed, type GenerateTraceOptions, generateTrace } from "../../lab/traces/generate-trace.ts";
import {
  type ComparedSpread,
  type LikeTraceOptions,
  likeTrace,
  type TraceLikeness,
} from "../../lab/traces/like-trace.ts";
import { type OutputFile, outputName } from "../../lab/traces/output-file.ts";
import type { Generator, Parameter } from "../../traces/generators/generator.ts";
import { defaultGenerator, generatorNamed, generators } from "../../traces/generators/registry.ts";
import type { Spread } from "../../traces/stats/value-counts.ts";
import { decimalNumber, path } from "../input/options.ts";
import { interruption } from "../interrupt.ts";
import { print, standardOutput } from "../output/print.ts";
import { Progress } from "../output/progress.ts";
import { aligned } from "../output/table.ts";

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
file on every machine. --like FILE imitates a trace instead: its lengths,
arrivals and sharing, without its content. A trace of lengths only gets the
sharing of a generator, --sharing NAME (default: chat).

Examples:
  kvlab trace generate --like trace.jsonl.gz --out like.jsonl.gz
  kvlab trace generate rag --documents 1000 --out rag.jsonl.gz
  kvlab trace generate --requests 10000 --out chat.jsonl.gz
  kvlab trace generate rag --requests 100000 --out - | kvlab replay -`,
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

interface DefaultOptions extends LikeTraceOptions {
  readonly like?: string;
  readonly json?: boolean;
}

/** The command without a generator's name: chat, or with `--like` a trace that resembles a file. */
function addDefault(generate: Command): void {
  addOptions(generate.command("default", { isDefault: true, hidden: true }), defaultGenerator)
    .argument("[NAME]")
    .option("--like <FILE>", "trace that is imitated")
    .option("--sharing <NAME>", "generator whose sharing a trace of lengths gets")
    .option("--json", "print one JSON document and nothing else")
    .action((name: string | undefined, options: DefaultOptions, command: Command) => {
      if (name !== undefined) generatorNamed(name);
      if (options.like === undefined) {
        for (const own of ["sharing", "json"] as const)
          if (options[own] !== undefined) throw new InputError(`--${own} needs --like FILE`);
        return writeGenerated(options as GenerateTraceOptions);
      }
      const chatOnly = Object.keys(defaultGenerator.parameters)
        .filter((each) => each !== "requests" && each !== "seed")
        .find((each) => command.getOptionValueSource(each) === "cli");
      if (chatOnly !== undefined)
        throw new InputError(`${dashed(chatOnly)} is an option of a generator, not of --like`);
      const requests = command.getOptionValueSource("requests") === "cli" ? options.requests : undefined;
      const { out, force, to, seed, sharing } = options;
      return writeLike(
        options.like,
        {
          ...{ out, force, ...(to !== undefined && { to }) },
          ...{ ...(requests && { requests }), ...(seed !== undefined && { seed }), ...(sharing && { sharing }) },
        },
        options.json,
      );
    });
}

async function writeLike(trace: string, options: LikeTraceOptions, json: boolean | undefined): Promise<void> {
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const likeness = await likeTrace(trace, { ...options, ...control });
    progress.done();
    // Standard output has only the trace, if it is written there.
    const report = typeof options.out === "string" ? print : (text: string) => process.stderr.write(text);
    report(
      json
        ? `${JSON.stringify(likeness, undefined, 2)}\n`
        : `${likenessText(likeness, trace)}\nWrote ${grouped(likeness.requests)} requests to ${outputName(options.out)}\n`,
    );
  } finally {
    progress.done();
  }
}

function likenessText({ hitRatios, sharing, requestsPerS, ...likeness }: TraceLikeness, trace: string): string {
  const rate = (value: number | null) => (value === null ? "all at once" : `${value.toPrecision(3)} requests a second`);
  const rows = [
    ...spreadRows("prompt tokens", likeness.inputLength),
    ...spreadRows("output tokens", likeness.outputLength),
    ...spreadRows("arrival gap, ms", likeness.arrivalGapS, 1000),
    ...(likeness.reuseDistanceBlocks ? spreadRows("reuse distance, blocks", likeness.reuseDistanceBlocks) : []),
    ...(likeness.sessionTurns ? spreadRows("turns per session", likeness.sessionTurns) : []),
    ["prompt lengths", `distance ${likeness.inputLengthDistance.toFixed(3)} (Kolmogorov-Smirnov; 0 = equal)`],
    ["output lengths", `distance ${likeness.outputLengthDistance.toFixed(3)}`],
    ["arrival gaps", `distance ${likeness.arrivalGapDistance.toFixed(3)}`],
    ["rate", `${rate(requestsPerS.generated)}; the trace: ${rate(requestsPerS.trace)}`],
    ...(hitRatios ?? []).map((at) => [
      `LRU, ${grouped(at.blocks)} blocks`,
      `hit ratio ${at.generated.toFixed(3)}; the trace: ${at.trace.toFixed(3)}`,
    ]),
    ...(likeness.hitRatioDifferenceMax === null
      ? []
      : [["hit ratios", `differ by ${likeness.hitRatioDifferenceMax.toFixed(3)} at most`]]),
    ...(sharing === null ? [] : [["sharing", `that of the generator ${sharing}: ${trace} has lengths only`]]),
  ];
  return aligned(rows, "ll");
}

function spreadRows(name: string, { trace, generated }: ComparedSpread, scale = 1): [string, string][] {
  const text = (spread: Spread | null) => {
    if (spread === null) return "none";
    const { p50, p90, p99 } = spread;
    return [p50, p90, p99].map((value) => grouped(Number((scale * value).toPrecision(3)))).join(", ");
  };
  return [[name, `p50, p90, p99: ${text(generated)}; the trace: ${text(trace)}`]];
}

function addOptions(command: Command, { parameters }: Generator): Command {
  command
    .requiredOption("--out <FILE>", "file to write; compressed if its name ends in .gz; -: standard output", outputFile)
    .option("--to <FORMAT>", "format to write: mooncake, parquet or azure (default: by extension, or mooncake)")
    .option("--force", "replace the file if it exists");
  for (const [each, parameter] of Object.entries<Parameter>(parameters))
    command.option(`${dashed(each)} <N>`, textOf(parameter), decimalNumber(dashed(each)), parameter.default);
  return command;
}

/** A path, or standard output. */
function outputFile(text: string, before: OutputFile["out"] | undefined): OutputFile["out"] {
  const parsed = path("--out", "a file")(text, before === undefined ? undefined : outputName(before));
  return parsed === "-" ? standardOutput() : parsed;
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
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const { requests } = await generateTrace({ ...options, ...control });
    progress.done();
    if (typeof options.out === "string") print(`Wrote ${grouped(requests)} requests to ${options.out}\n`);
  } finally {
    progress.done();
  }
}
