import { InputError } from "../../core/errors.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { type BackendName, defaultBackend } from "../../engine/backends.ts";
import { longestDesignedOutput } from "../../traces/calibration.ts";
import { shortened } from "../../traces/shorten.ts";
import { type CalibrationDesign, calibrationDesign } from "../calibrate/measured-engine.ts";
import { type Control, counting } from "../control.ts";
import { type Input, opened, type TraceChoice, type TraceReading } from "../input.ts";
import { distinctPromptBlocks } from "../run/block-stream.ts";
import { blocksOf, type Capacity, defaultCapacity } from "../run/capacity.ts";
import { checkTarget } from "../run/check-target.ts";
import {
  blockTokensFor,
  checkMemory,
  deviceOf,
  type PartChoice,
  type Parts,
  partsNamed,
  type RunConfig,
  schedulerOptionsOn,
} from "../run/configuration.ts";
import { costFrom } from "../run/cost-file.ts";
import { withLoad } from "../run/load.ts";
import { checkOperations, OperationsPlayer, readOperations } from "../run/operations-file.ts";
import { engineCapacity, engineFrom, type RealEngine } from "../run/real-engine.ts";
import type { SimulationOptions } from "../run/simulation-options.ts";
import { verifyDecisions } from "./verification.ts";
import { verifyReport } from "./verify-report.ts";

/** One configuration, which an engine and the simulator run. */
export interface VerifyOptions extends PartChoice, TraceReading, SimulationOptions, Control {
  /** The engine backend; by default the one on the CPU. */
  readonly backend?: BackendName;
  /** Reuse rules that differ from the defaults. */
  readonly rules?: Parts["rules"] | undefined;
  /** Size of the cache. */
  readonly blocks?: Capacity;
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
  /** Random seed of the policies and of the model. */
  readonly seed?: number;
  /** Checks every invariant after every step. */
  readonly audit?: boolean;
  /** A file of operator-initiated operations. */
  readonly operations?: string;
  /** Divides the lengths of contents and outputs by this number. */
  readonly shorten?: number;
  /** Also compares times: fits a cost model to steps measured in this number of rounds, alternating with runs of the trace. */
  readonly calibrate?: number;
  /**
   * Also compares contents: keys and values of sampled blocks, and logits of sampled hits, are recomputed without the cache. They must
   * be bit-identical, or within the backend's tolerance.
   */
  readonly contents?: boolean;
  /**
   * With `contents`: the share of the sequences that are recomputed, 0 to 1, wherever a prefill ends, a sequence is swapped in or
   * finishes, or a block is copied. By default as many as add at most about half a recomputed token per token that the engine computes.
   */
  readonly contentsShare?: number;
}

/** The result of `verify`. */
export interface Verified {
  /** The document that `kvlab verify --json` prints: schema verify/1. */
  readonly report: ReturnType<typeof verifyReport>;
  readonly input: Input;
}

/**
 * Serves a trace with an engine, repeats the run in the simulator with the measured step times, and compares every decision. With
 * `contents` it also compares what the engine's blocks contain.
 *
 * @throws InputError, ExecutorError, PolicyError naming a plug-in's file, Interrupted
 */
export async function verify(source: TraceChoice, options: VerifyOptions = {}): Promise<Verified> {
  const { rules = {}, seed = 1, shorten = 1, calibrate, signal, backend = defaultBackend.name } = options;
  const parts = await partsNamed(options, rules, backend);
  const { cost: _, ...others } = options;
  checkTarget({ ...others, target: backend });
  const cost = options.cost === undefined ? undefined : await costFrom(options.cost);
  if (calibrate !== undefined && cost !== undefined)
    throw new InputError("--calibrate and --cost exclude each other: both set the step times");
  if (calibrate !== undefined && options.pace === "real")
    throw new InputError(
      "--calibrate and --pace real exclude each other: engines that take turns cannot run in real time",
    );
  checkContentsOptions(options);
  if (options.blocks !== undefined && options.capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both set the size of the cache");
  const file = options.operations === undefined ? undefined : await readOperations(options.operations);
  const read = await opened(source, options);
  const loaded = withLoad(read.trace, options);
  if (file) checkOperations(file, loaded);
  const input = withTrace(read, shortened(loaded, shorten));
  const { trace } = input;
  const engine = engineFrom({ ...options, target: backend }, trace);
  const blockTokens = blockTokensFor(trace, options.blockSize, parts.preset);
  const blocks = CacheReplay.blockKeys({ ...parts, blockTokens, blocks: undefined, seed }, trace);
  const capacity = engineCapacity(options, engine, blockTokens) ?? defaultCapacity;
  const config: RunConfig = {
    ...parts,
    blockTokens,
    blocks: parts.eviction.unlimited ? undefined : blocksOf(capacity, distinctPromptBlocks(blocks)),
    schedulerOptions: { ...schedulerOptionsOn(parts, deviceOf(undefined, engine)), ...options.schedulerOption },
    seed,
    audit: options.audit ?? false,
  };
  checkMemory(config.blocks);
  const before = () => {
    const player = file && new OperationsPlayer(file.operations, trace, blocks);
    return player && (((...args) => player.before(...args)) satisfies RunConfig["before"]);
  };
  const design = calibrate === undefined ? undefined : designFor(trace, config, engine, calibrate);
  const requests = design ? 2 * trace.requestCount + design.trace.requestCount : trace.requestCount;
  const advance = counting(options, "serving", requests);
  const verification = await verifyDecisions(trace, blocks, config, engine, {
    before,
    cost,
    design,
    contents: options.contents ? { share: options.contentsShare } : undefined,
    advance,
    signal,
  });
  return { report: verifyReport(input, blocks, config, engine, verification, shorten), input };
}

function checkContentsOptions({ contents, contentsShare: share, pace }: VerifyOptions): void {
  if (share !== undefined && !contents) throw new InputError("--contents-share needs --contents");
  if (share !== undefined && !(share > 0 && share <= 1))
    throw new InputError(`contentsShare is ${share}, expected a number above 0, at most 1`);
  if (contents && pace === "real")
    throw new InputError(
      "--contents and --pace real exclude each other: requests would wait while contents are recomputed",
    );
}

/** Largest batch of designed steps; the fit extrapolates to larger ones. */
const maxBatch = 8;

/** Designed steps that resemble the trace: prompts up to its longest one, limited by the model's positions. */
function designFor(
  trace: Trace,
  { blockTokens, seed }: RunConfig,
  engine: RealEngine,
  rounds: number,
): CalibrationDesign {
  const longest = trace.inputTokens.reduce((most, tokens) => Math.max(most, tokens), 0);
  const longestPrompt = engine.loaded.config.maxPositions - longestDesignedOutput;
  const maxTokens = Math.max(2 * blockTokens, Math.min(longest, longestPrompt));
  return calibrationDesign({ unitTokens: blockTokens, maxTokens, maxBatch, rounds, seed });
}

function withTrace(input: Input, trace: Trace): Input {
  const sum = (column: Uint32Array) => column.reduce((total, tokens) => total + tokens, 0);
  return { ...input, trace, inputTokens: sum(trace.inputTokens), outputTokens: sum(trace.outputTokens) };
}
