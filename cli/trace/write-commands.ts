import type { Command } from "commander";
import { counted, grouped } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import { type AnonymizeTraceOptions, anonymizeTrace } from "../../lab/traces/anonymize-trace.ts";
import { type ConvertTraceOptions, convertTrace, type WrittenTrace } from "../../lab/traces/convert-trace.ts";
import type { OutputFile } from "../../lab/traces/output-file.ts";
import { addTraceOptions, path, wholeNumber } from "../input/options.ts";
import { interruption } from "../interrupt.ts";
import { print, standardOutput } from "../output/print.ts";
import { Progress } from "../output/progress.ts";

const convertExamples = `
The format of OUT follows from its extension: .parquet is kvlab's Parquet
schema (docs/trace-format.md), .jsonl is mooncake for content ids and token-ids
for token ids, .csv is azure (arrival and lengths only). A name that ends in .gz
is compressed. A dash as TRACE reads standard input, as OUT it writes JSON Lines
(or the format of --to) to standard output.

Examples:
  kvlab trace convert trace.jsonl.gz trace.parquet
  kvlab trace convert day1.jsonl day2.jsonl both.jsonl.gz
  kvlab trace convert trace.parquet lengths.csv
  kvlab trace convert --sort log.jsonl sorted.jsonl.gz
  zcat trace.jsonl.gz | kvlab trace convert - trace.parquet --limit 1000
  kvlab trace convert trace.parquet - | head -1`;

const anonymizeExamples = `
OUT has the arrivals and lengths of the requests, and a content id for each block:
the first 63 bits of an HMAC-SHA-256 of the block and all blocks before it. Equal
prefixes have equal ids. The salt is the secret key; it is written nowhere. Without
--salt it is random, so that ids of two runs have nothing in common. Text and
token ids are not written; sessions are numbered.

Examples:
  kvlab trace anonymize chats.jsonl trace.jsonl.gz --block-size 16
  kvlab trace anonymize day1.jsonl day1.parquet --block-size 64 --salt "$SECRET"`;

export function addConvert(trace: Command): void {
  const convert = trace
    .command("convert")
    .description("convert a trace to another format")
    .usage("[options] <TRACE...> <OUT>")
    .argument("<FILES...>", "trace files, read as one trace, and the file to write")
    .option(
      "--to <FORMAT>",
      "format to write: parquet, mooncake, token-ids, qwen-bailian or azure (default: by extension)",
    )
    .option("--sort", "sort the requests by arrival, in memory (default: a request out of order is refused)");
  addWriteOptions(convert)
    .addHelpText("after", convertExamples)
    .action((files: readonly string[], options: Omit<ConvertTraceOptions, "out">) =>
      write(files, (paths, out, control) => convertTrace(paths, { ...options, ...control, out })),
    );
}

export function addAnonymize(trace: Command): void {
  const anonymize = trace
    .command("anonymize")
    .description("write a trace with salted content ids in place of its content")
    .usage("[options] <TRACE...> <OUT>")
    .argument("<FILES...>", "trace files, read as one trace, and the file to write")
    .requiredOption("--block-size <TOKENS>", "tokens per content id", wholeNumber("--block-size", 2, 2 ** 31 - 1))
    .option("--salt <TEXT>", "secret of the ids; random: a new one that is stored nowhere", "random")
    .option("--to <FORMAT>", "format to write: mooncake or parquet (default: by extension)");
  addWriteOptions(anonymize)
    .addHelpText("after", anonymizeExamples)
    .action((files: readonly string[], options: Omit<AnonymizeTraceOptions, "out">) =>
      write(files, (paths, out, control) => anonymizeTrace(paths, { ...options, ...control, out })),
    );
}

function addWriteOptions(command: Command): Command {
  return addTraceOptions(command).option("--force", "replace OUT if it exists");
}

type Written = (
  paths: readonly string[],
  out: OutputFile["out"],
  control: { progress: Progress["follow"]; note: Progress["note"]; signal: AbortSignal },
) => Promise<WrittenTrace>;

async function write(files: readonly string[], written: Written): Promise<void> {
  if (files.length < 2) throw new InputError(`only ${files[0]} is given, expected a TRACE and the file to write`);
  const paths = files.slice(0, -1);
  const out = path("OUT", "a file")(files[files.length - 1], undefined);
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const { format, requests, inputTokens, outputTokens, lost } = await written(
      paths,
      out === "-" ? standardOutput() : out,
      control,
    );
    progress.done();
    for (const { column, requests } of lost)
      progress.note(
        `${format} has no column ${column}, which ${counted(requests, "request")} of the trace ${requests === 1 ? "has" : "have"}`,
      );
    if (out === "-") return;
    print(
      `Wrote ${counted(requests, "request")}, ${grouped(inputTokens)} input and ${grouped(outputTokens)} output tokens to ${out} (${format})\n`,
    );
  } finally {
    progress.done();
  }
}
