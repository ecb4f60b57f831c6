import type { Command } from "commander";
import { type BackendName, defaultBackend } from "../engine/backends.ts";
import type { WeightBits } from "../engine/onnx/quantized.ts";
import { calibrate } from "../lab/calibrate/calibrate.ts";
import type { PartNames } from "../lab/run/configuration.ts";
import type { NamedNumbers } from "../lab/run/simulation-options.ts";
import { calibrationText } from "./calibrate/calibration-text.ts";
import { addBlockSize, addParts, bitsOption, engineTargetOption, path, wholeNumber } from "./input/options.ts";
import { bytes, namedNumber } from "./input/simulation-options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { parseRules } from "./replay.ts";

interface CalibrateOptions extends PartNames {
  readonly target: BackendName;
  readonly model?: string;
  readonly bits?: WeightBits;
  readonly threads?: number;
  readonly rule?: readonly string[];
  readonly schedulerOption?: NamedNumbers;
  readonly blockSize?: number;
  readonly capacity?: number;
  readonly maxPrompt: number;
  readonly maxBatch: number;
  readonly rounds: number;
  readonly seed: number;
  readonly from?: string;
  readonly out?: string;
  readonly plot?: string;
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab calibrate --model random:15m --out cost.json
  kvlab replay trace.jsonl --target sim --preset vllm --cost cost.json
  kvlab calibrate --model ./llama --preset vllm --max-prompt 4096 --rounds 3
  kvlab calibrate --from runs/example-${defaultBackend.name}-random_tiny-lru-1000-1a2b3c4d
  kvlab calibrate sharegpt.jsonl --from vllm-log --out vllm.json`;

/** Adds `kvlab calibrate`. */
export function addCalibrate(program: Command): void {
  const described = program
    .command("calibrate")
    .description("measure what an engine's steps take, and fit the simulator's cost model to it")
    .addOption(engineTargetOption("whose steps are measured"))
    .option("--model <NAME>", "a folder, or random:NAME (default: random:tiny)")
    .addOption(bitsOption())
    .option("--threads <N>", "of its operators (default: all)", wholeNumber("--threads", 1, 1024));
  const command = addParts(described)
    .option("--scheduler-option <NAME=N>", "such as max-num-seqs=64 (repeatable)", namedNumber("--scheduler-option"))
    .option("--capacity <SIZE>", "memory of the cache, such as 1GiB (default: as needed)", bytes("--capacity", 1));
  addBlockSize(command)
    .option("--max-prompt <TOKENS>", "longest prompt, what is cached included", wholeNumber("--max-prompt", 32), 1024)
    .option("--max-batch <N>", "most requests at once", wholeNumber("--max-batch", 1, 1024), 16)
    .option("--rounds <N>", "how often every step is measured", wholeNumber("--rounds", 1, 1000), 5)
    .option("--seed <N>", "for orders and samples", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .argument("[TRACE]", "of --from DIR, where that is a log of vLLM's requests")
    .option("--from <DIR>", "fit to this saved run, or log of requests, instead", path("--from", "a folder"))
    .option(
      "--out <FILE>",
      "the cost model, for --target sim --cost FILE (default: cost.json)",
      path("--out", "a file"),
    )
    .option("--plot <FILE>", "residuals (default: beside the cost model, .svg)", path("--plot", "a file"))
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(calibrateEngine);
}

async function calibrateEngine(
  trace: string | undefined,
  { rule, target, ...options }: CalibrateOptions,
): Promise<void> {
  const progress = new Progress();
  const rules = rule && parseRules(rule);
  const control = { progress: progress.follow, signal: interruption };
  try {
    const { report, calls } = await withEngine(() =>
      calibrate({ ...options, ...control, rules, trace, backend: target }),
    );
    progress.done();
    print(`${options.json ? JSON.stringify(report, undefined, 2) : calibrationText(report, calls)}\n`);
  } finally {
    progress.done();
  }
}
