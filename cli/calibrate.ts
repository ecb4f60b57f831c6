import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { type BackendName, defaultBackend } from "../engine/backends.ts";
import type { WeightBits } from "../engine/onnx/quantized.ts";
import { type Calibration, calibrationDocument, type FittedSteps } from "../lab/calibrate/calibration-report.ts";
import { fitLog } from "../lab/calibrate/logged-steps.ts";
import { experimentOf, type MeasuredEngine, measureEngine } from "../lab/calibrate/measured-engine.ts";
import { savedSteps } from "../lab/calibrate/measured-steps.ts";
import { readRecordedRun } from "../lab/calibrate/recorded-run.ts";
import { residualPlot } from "../lab/calibrate/residual-plot.ts";
import { checkWritable } from "../lab/output/run-directory.ts";
import { checkMemory, type PartNames, partsNamed, type RunConfig } from "../lab/run/configuration.ts";
import { engineCapacity, engineFrom } from "../lab/run/real-engine.ts";
import type { NamedNumbers } from "../lab/run/simulation-options.ts";
import { coefficientsOf, fitCost } from "../sim/cost/fit.ts";
import { fittedText } from "../sim/cost/fitted.ts";
import { replaceable } from "../traces/write-mooncake.ts";
import { calibrationText } from "./calibrate/calibration-text.ts";
import { addBlockSize, addParts, bitsOption, engineTargetOption, path, wholeNumber } from "./input/options.ts";
import { bytes, namedNumber } from "./input/simulation-options.ts";
import { interruption, watchingSignals, withEngine } from "./interrupt.ts";
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
    .action(calibrate);
}

async function calibrate(trace: string | undefined, options: CalibrateOptions): Promise<void> {
  checkTogether(options, trace);
  const { out = "cost.json", plot = `${out.replace(/\.json$/, "")}.svg`, from, seed } = options;
  const [outTarget, plotTarget] = [await replaceable(out), await replaceable(plot)];
  if (outTarget === plotTarget)
    throw new InputError(`--plot is ${plot}, the file of the cost model; expected another one`);
  for (const file of [out, plot]) await checkWritable(file, dirname(file));
  const { about, steps, calls, fit } = await fitted(options, trace);
  const calibration: Calibration = { about, from: from ?? null, seed, steps, fit, out, plot };
  await watchingSignals(async () => {
    await written(out, outTarget, fittedText({ about, calls, picoseconds: coefficientsOf(fit) }));
    await written(plot, plotTarget, residualPlot(about, steps, fit));
  });
  const document = calibrationDocument(calibration);
  print(`${options.json ? JSON.stringify(document, undefined, 2) : calibrationText(document, calls)}\n`);
}

async function fitted(options: CalibrateOptions, trace: string | undefined): Promise<FittedSteps> {
  const { from, seed } = options;
  if (from === undefined) {
    const measured = await measuredByDesign(options);
    return { ...measured, fit: fitCost(measured.steps, "the engine", { seed, calls: measured.calls }) };
  }
  if (trace !== undefined) {
    const run = await readRecordedRun(trace, from);
    return { about: `the requests of ${from}`, ...fitLog(run, from, seed) };
  }
  const saved = await savedSteps(from);
  return { about: `the steps of ${from}`, ...saved, fit: fitCost(saved.steps, from, { seed, calls: saved.calls }) };
}

/** Of these, what a run that is read was measured with is its own. */
const ofEngine = [
  ...(["model", "bits", "threads", "preset", "index", "eviction", "allocator", "scheduler", "rule"] as const),
  ...(["schedulerOption", "blockSize", "capacity"] as const),
];

/** @throws InputError if an option has nothing that it is about */
function checkTogether(options: CalibrateOptions, trace: string | undefined): void {
  if (options.from === undefined) {
    if (trace === undefined) return;
    throw new InputError(
      `a trace (${trace}) goes with --from DIR, a log of its requests; an engine is measured without one`,
    );
  }
  const given = ofEngine.find((name) => options[name] !== undefined);
  if (given === undefined) return;
  const name = given.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new InputError(`--${name} and --from exclude each other: a run that was measured has its own`);
}

/** @throws Interrupted if a signal ended it */
async function measuredByDesign(options: CalibrateOptions): Promise<MeasuredEngine> {
  const parts = await partsNamed(options, parseRules(options.rule ?? []), options.target);
  const { maxPrompt, maxBatch, rounds, seed } = options;
  const unitTokens = options.blockSize ?? Math.max(usualBlockTokens, parts.preset?.blockTokens ?? 0);
  const experiment = experimentOf({ unitTokens, maxTokens: maxPrompt, maxBatch, rounds, seed });
  const { trace, blocks } = experiment;
  const engine = engineFrom(options, trace);
  const capacity = engineCapacity(options, engine, unitTokens);
  const config: RunConfig = {
    ...parts,
    blockTokens: unitTokens,
    blocks: typeof capacity === "object" && "blocks" in capacity ? capacity.blocks : blocks,
    schedulerOptions: { ...parts.schedulerOptions, ...options.schedulerOption },
    seed,
  };
  checkMemory(config.blocks);
  const progress = new Progress();
  progress.start("measuring", trace.requestCount);
  try {
    return await withEngine(() =>
      measureEngine(experiment, config, engine, {
        advance: (requests) => progress.advance(requests),
        signal: interruption,
      }),
    );
  } finally {
    progress.done();
  }
}

const usualBlockTokens = 16;

/** A file has its name when it is complete. */
async function written(path: string, target: string, text: string): Promise<void> {
  const fresh = `${target}.${process.pid}.tmp`;
  try {
    await mkdir(dirname(target), { recursive: true });
    await writeFile(fresh, text);
    await rename(fresh, target);
  } catch (error) {
    throw new InputError(`${path}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}
