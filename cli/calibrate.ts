import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import type { WeightBits } from "../engine/backend.ts";
import { type BackendName, defaultBackend } from "../engine/backends.ts";
import { calibrate } from "../lab/calibrate/calibrate.ts";
import { calibrateProfile } from "../lab/calibrate/calibrate-profile.ts";
import type { PartNames } from "../lab/run/configuration.ts";
import type { NamedNumbers } from "../lab/run/simulation-options.ts";
import { calibrationText } from "./calibrate/calibration-text.ts";
import { profileText } from "./calibrate/profile-text.ts";
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
  readonly profile?: string;
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab calibrate --model random:15m --out cost.json
  kvlab replay trace.jsonl --target sim --preset vllm --cost cost.json
  kvlab calibrate --model ./llama --preset vllm --max-prompt 4096 --rounds 3
  kvlab calibrate --model random:15m --profile ./my-15m
  kvlab calibrate --from runs/example-${defaultBackend.name}-random_tiny-lru-1000-1a2b3c4d
  kvlab calibrate sharegpt.jsonl --from vllm-log --out vllm.json`;

/** Adds `kvlab calibrate`. */
export function addCalibrate(program: Command): void {
  const withModel = program
    .command("calibrate")
    .description("measure the durations of an engine's steps and fit the simulator's cost model to them")
    .addOption(engineTargetOption("calibrate measures an engine"))
    .option("--model <NAME>", "model folder, or random:NAME for random weights (default: random:tiny)")
    .addOption(bitsOption())
    .option("--threads <N>", "threads of the engine's operators (default: all)", wholeNumber("--threads", 1, 1024));
  const command = addParts(withModel)
    .option(
      "--scheduler-option <NAME=N>",
      "option of the scheduler, such as max-num-seqs=64 (repeatable)",
      namedNumber("--scheduler-option"),
    )
    .option("--capacity <SIZE>", "cache memory, such as 1GiB (default: as needed)", bytes("--capacity", 1));
  addBlockSize(command)
    .option("--max-prompt <TOKENS>", "longest prompt, cached tokens included", wholeNumber("--max-prompt", 32), 1024)
    .option("--max-batch <N>", "most concurrent requests", wholeNumber("--max-batch", 1, 1024), 16)
    .option("--rounds <N>", "measurements of each step", wholeNumber("--rounds", 1, 1000), 5)
    .option("--seed <N>", "random seed of the order of steps and of samples", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .argument("[TRACE]", "the trace that was served, if --from is a vLLM request log")
    .option("--from <DIR>", "fit to a saved run or a vLLM request log instead of measuring", path("--from", "a folder"))
    .option(
      "--out <FILE>",
      "write the cost model, for --target sim --cost FILE (default: cost.json)",
      path("--out", "a file"),
    )
    .option(
      "--plot <FILE>",
      "write a plot of the residuals (default: beside the cost model, .svg)",
      path("--plot", "a file"),
    )
    .option(
      "--profile <FOLDER>",
      "write operator times instead, for --target sim --cost profile:FOLDER",
      path("--profile", "a folder"),
    )
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(calibrateEngine);
}

async function calibrateEngine(
  trace: string | undefined,
  { rule, target, profile, ...options }: CalibrateOptions,
): Promise<void> {
  const progress = new Progress();
  const rules = rule && parseRules(rule);
  const control = { progress: progress.follow, note: progress.note, signal: interruption };
  try {
    if (profile !== undefined) {
      checkProfileOptions({ ...options, trace, rule });
      const measured = await withEngine(() => calibrateProfile({ ...options, ...control, profile, backend: target }));
      progress.done();
      print(`${options.json ? JSON.stringify(measured, undefined, 2) : profileText(measured)}\n`);
      return;
    }
    const { report, calls } = await withEngine(() =>
      calibrate({ ...options, ...control, rules, trace, backend: target }),
    );
    progress.done();
    print(`${options.json ? JSON.stringify(report, undefined, 2) : calibrationText(report, calls)}\n`);
  } finally {
    progress.done();
  }
}

/** Options of a fit, and of a replica that serves requests: the steps of a profile run on the executor alone. */
const fitOptions = [
  ...(["trace", "from", "out", "plot", "preset", "index", "eviction", "allocator", "scheduler", "rule"] as const),
  ...(["schedulerOption", "capacity", "blockSize"] as const),
];

/** @throws InputError that names an option without effect on a profile */
function checkProfileOptions(options: Readonly<Partial<Record<(typeof fitOptions)[number], unknown>>>): void {
  const given = fitOptions.find((name) => options[name] !== undefined);
  if (given === undefined) return;
  const name = given === "trace" ? "a trace" : `--${given.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  throw new InputError(`${name} and --profile exclude each other: a profile has the times of steps of given shapes`);
}
