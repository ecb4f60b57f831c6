import type { Command } from "commander";
import type { Slo } from "../core/serving/metrics.ts";
import type { TraceReading } from "../lab/input.ts";
import { sizeCluster } from "../lab/size/size.ts";
import type { SizeLoad } from "../lab/size/size-options.ts";
import { sizeDefaults } from "../lab/size/sizing.ts";
import { addTraceOptions, commaList, path, wholeNumber } from "./input/options.ts";
import { addSizeLoadOptions, bytes, slo } from "./input/simulation-options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { sizeText } from "./size/size-report.ts";

interface SizeCommandOptions extends TraceReading, SizeLoad {
  readonly slo: Slo;
  readonly gpu?: readonly string[];
  readonly tp?: readonly number[];
  readonly preset?: readonly string[];
  readonly eviction?: readonly string[];
  readonly router?: readonly string[];
  readonly capacity?: readonly number[];
  readonly maxGpus?: number;
  readonly prices?: string;
  readonly warmup: number;
  readonly seed: number;
  readonly threads?: number;
  readonly out?: string;
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab size trace.jsonl.gz --slo ttft=500ms:p99,tpot=50ms:p95
  kvlab size trace.jsonl --model llama-3.1-70b --gpu h200,l40s --slo ttft=2s
  kvlab size trace.jsonl --rate 20 --slo ttft=500ms:p99 --preset vllm,sglang
  kvlab size trace.jsonl --concurrency 64 --slo tpot=50ms --prices prices.json
  kvlab size trace.jsonl --slo ttft=1s:p99 --out runs/size --json

The answer is the cheapest of all combinations of the lists with any number of
replicas; of equal costs the one with the larger margin to the SLO. It is found
by bisection, with at most about a tenth of the simulations of the whole grid. A
percentile that is not given is p99. The built-in prices are assumptions:
--prices replaces them. Exit code: 0 if a cluster meets the SLO, 1 if none does.
docs/sizing.md has the method and the document of --json.`;

export function addSize(program: Command): void {
  const command = program
    .command("size")
    .description("the cheapest GPUs, cache, preset, router and eviction policy that meet an SLO")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example')
    .requiredOption("--slo <LIMITS>", "limits and percentiles, such as ttft=500ms:p99,tpot=50ms:p95,e2e=10s", slo)
    .optionsGroup("What is searched:")
    .option("--gpu <NAMES>", `GPUs (default: ${sizeDefaults.gpu.join(",")})`, list("--gpu"))
    .option(
      "--tp <NS>",
      `tensor-parallel GPUs per replica (default: ${sizeDefaults.tp.join(",")}, as far as the model fits)`,
      (text) => commaList("--tp", text).map(wholeNumber("--tp", 1, 1024)),
    )
    .option("--preset <NAMES>", `presets of real systems (default: ${sizeDefaults.preset.join(",")})`, list("--preset"))
    .option(
      "--eviction <NAMES>",
      `eviction policies, or plug-in files (default: ${sizeDefaults.eviction.join(",")})`,
      list("--eviction"),
    )
    .option(
      "--router <NAMES>",
      `routers, or plug-in files (default: ${sizeDefaults.router.join(",")})`,
      list("--router"),
    )
    .option("--capacity <SIZES>", "cache memory of a GPU, such as 16GiB,64GiB (default: all that is free)", (text) =>
      commaList("--capacity", text).map(bytes("--capacity", 1)),
    )
    .option(
      "--max-gpus <N>",
      `most GPUs of a cluster (default: ${sizeDefaults.maxGpus})`,
      wholeNumber("--max-gpus", 1, 4096),
    )
    .option("--prices <FILE>", 'prices per GPU and hour, as JSON such as {"h200": 4.5}', path("--prices", "a file"))
    .optionsGroup("Load and model:");
  addSizeLoadOptions(command).optionsGroup("Options:");
  addTraceOptions(command)
    .option("--warmup <N>", "leading requests that are served but not measured", wholeNumber("--warmup", 0), 0)
    .option("--seed <N>", "random seed of policies", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .option(
      "--threads <N>",
      "most threads of simulations (default: those of the machine, if worth it)",
      wholeNumber("--threads", 1, 1024),
    )
    .option("--out <DIR>", "write size.json and size.svg to DIR", path("--out", "a folder"))
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(size);
}

const list = (option: string) => (text: string) => commaList(option, text);

/** Exit code if no cluster meets the SLO. */
const notMet = 1;

async function size(files: readonly string[], { json, ...options }: SizeCommandOptions): Promise<void> {
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const sized = await sizeCluster(files, { ...options, ...control });
    progress.done();
    print(`${json ? JSON.stringify(sized.report, undefined, 2) : sizeText(sized)}\n`);
    if (!json && sized.files.length > 0) print(`\nSaved: ${sized.files.join(", ")}\n`);
    if (sized.report.answer === null) process.exitCode = notMet;
  } finally {
    progress.done();
  }
}
