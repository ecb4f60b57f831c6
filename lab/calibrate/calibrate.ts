import { rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import type { WeightBits } from "../../engine/backend.ts";
import { type BackendName, defaultBackend } from "../../engine/backends.ts";
import { coefficientsOf, fitCost } from "../../sim/cost/fit.ts";
import { fittedText } from "../../sim/cost/fitted.ts";
import { replaceable } from "../../traces/replace-file.ts";
import { type Control, counting } from "../control.ts";
import { readRecordedRun } from "../fidelity/recorded-run.ts";
import { checkWritable } from "../output/run-directory.ts";
import {
  checkMemory,
  deviceOf,
  type PartChoice,
  type Parts,
  partsNamed,
  type RunConfig,
  schedulerOptionsOn,
} from "../run/configuration.ts";
import { engineCapacity, engineFrom } from "../run/real-engine.ts";
import type { NamedNumbers } from "../run/simulation-options.ts";
import { pluginHost } from "../user-plugins/host.ts";
import { type CalibrationDocument, calibrationDocument, type FittedSteps } from "./calibration-report.ts";
import { fitLog } from "./logged-steps.ts";
import { calibrationDesign, type MeasuredEngine, measureEngine } from "./measured-engine.ts";
import { savedSteps } from "./measured-steps.ts";
import { residualPlot } from "./residual-plot.ts";

/** The engine to measure, or the recorded steps to use, and the files of the result. */
export interface CalibrateOptions extends PartChoice, Control {
  /** The engine backend; by default the one on the CPU. */
  readonly backend?: BackendName;
  /** A folder in the Hugging Face layout, or random:NAME. */
  readonly model?: string;
  /** Bits per weight: 32, 8 or 4. */
  readonly bits?: WeightBits;
  /** Number of threads of the operators. */
  readonly threads?: number;
  /** Reuse rules that differ from the defaults. */
  readonly rules?: Parts["rules"] | undefined;
  /** Options of the scheduler by name. */
  readonly schedulerOption?: NamedNumbers;
  /** Tokens of a block. */
  readonly blockSize?: number;
  /** Bytes of the cache. */
  readonly capacity?: number;
  /** Tokens of the longest prompt, cached ones included. */
  readonly maxPrompt?: number;
  /** Most concurrent requests. */
  readonly maxBatch?: number;
  /** Measurements of every step. */
  readonly rounds?: number;
  /** Random seed of the measured requests. */
  readonly seed?: number;
  /** A saved run, or a vLLM request log, to use instead of measuring. */
  readonly from?: string;
  /** The trace whose requests are in that log. */
  readonly trace?: string | undefined;
  /** Files of the cost model and of the plot of residuals. */
  readonly out?: string;
  readonly plot?: string;
}

/** The fitted cost model. */
export interface Calibrated {
  /** The document that `kvlab calibrate --json` prints: schema calibrate/1. */
  readonly report: CalibrationDocument;
  readonly calls: FittedSteps["calls"];
}

/**
 * Measures an engine's steps, or reads recorded ones, fits the simulator's cost model to them, and writes both files.
 *
 * @throws InputError, ExecutorError, Interrupted
 */
export async function calibrate(options: CalibrateOptions = {}): Promise<Calibrated> {
  const { trace, out = "cost.json", plot = `${out.replace(/\.json$/, "")}.svg`, from, seed = 1 } = options;
  checkConflicts(options, trace);
  const [outTarget, plotTarget] = [await replaceable(out), await replaceable(plot)];
  if (outTarget === plotTarget)
    throw new InputError(`--plot is ${plot}, the file of the cost model; expected another one`);
  for (const file of [out, plot]) await checkWritable(file, dirname(file));
  const { about, steps, calls, fit } = await fitted(options, trace);
  await pluginHost().withoutPluginCode(async () => {
    await writeComplete(out, outTarget, fittedText({ about, calls, picoseconds: coefficientsOf(fit) }));
    await writeComplete(plot, plotTarget, residualPlot(about, steps, fit));
  });
  return { report: calibrationDocument({ about, from: from ?? null, seed, steps, calls, fit, out, plot }), calls };
}

async function fitted(options: CalibrateOptions, trace: string | undefined): Promise<FittedSteps> {
  const { from, seed = 1 } = options;
  if (from === undefined) {
    const measured = await measureDesignedSteps(options);
    return { ...measured, fit: fitCost(measured.steps, "the engine", { seed, calls: measured.calls }) };
  }
  if (trace !== undefined) {
    const run = await readRecordedRun(trace, from);
    return { about: `the requests of ${from}`, ...(await fitLog(run, from, seed)) };
  }
  const saved = await savedSteps(from);
  return { about: `the steps of ${from}`, ...saved, fit: fitCost(saved.steps, from, { seed, calls: saved.calls }) };
}

/** Options of a measured engine, which a recorded run determines. */
const engineOptions = [
  ...(["model", "bits", "threads", "preset", "index", "eviction", "allocator", "scheduler", "rules"] as const),
  ...(["schedulerOption", "blockSize", "capacity"] as const),
];

/** @throws InputError if options contradict each other */
function checkConflicts(options: CalibrateOptions, trace: string | undefined): void {
  if (options.from === undefined) {
    if (trace === undefined) return;
    throw new InputError(
      `a trace (${trace}) needs --from DIR, the log of its requests; an engine is measured without a trace`,
    );
  }
  const given = engineOptions.find((name) => options[name] !== undefined);
  if (given === undefined) return;
  const name = (given === "rules" ? "rule" : given).replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new InputError(`--${name} and --from exclude each other: the recorded run determines it`);
}

/** @throws Interrupted */
async function measureDesignedSteps(options: CalibrateOptions): Promise<MeasuredEngine> {
  const parts = await partsNamed(options, options.rules ?? {}, options.backend ?? defaultBackend.name);
  const { maxPrompt = 1024, maxBatch = 16, rounds = 5, seed = 1, signal } = options;
  const unitTokens = options.blockSize ?? Math.max(leastBlockTokens, parts.preset?.blockTokens ?? 0);
  const design = calibrationDesign({ unitTokens, maxTokens: maxPrompt, maxBatch, rounds, seed });
  const { trace, blocks } = design;
  const engine = engineFrom({ ...options, target: options.backend ?? defaultBackend.name }, trace);
  const capacity = engineCapacity(options, engine, unitTokens);
  const config: RunConfig = {
    ...parts,
    blockTokens: unitTokens,
    blocks: typeof capacity === "object" && "blocks" in capacity ? capacity.blocks : blocks,
    schedulerOptions: { ...schedulerOptionsOn(parts, deviceOf(undefined, engine)), ...options.schedulerOption },
    seed,
  };
  checkMemory(config.blocks);
  const advance = counting(options, "measuring", trace.requestCount);
  return await measureEngine(design, config, engine, { advance, signal });
}

const leastBlockTokens = 16;

/** Writes a temporary file and renames it when it is complete. */
async function writeComplete(path: string, target: string, text: string): Promise<void> {
  const temporary = `${target}.${process.pid}.tmp`;
  makeFolder(dirname(target), path);
  try {
    await writeFile(temporary, text);
    await rename(temporary, target);
  } catch (error) {
    throw new InputError(`${path}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}
