import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { CacheReplay } from "../core/replica/replay.ts";
import type { Trace } from "../core/trace/trace.ts";
import { type BackendName, defaultBackend } from "../engine/backends.ts";
import { type Experiment, experimentOf } from "../lab/calibrate/measured-engine.ts";
import type { TraceReading } from "../lab/input.ts";
import { type Input, readInput } from "../lab/input.ts";
import { blocksOf, type Capacity, defaultCapacity } from "../lab/run/capacity.ts";
import { blockTokensFor, checkMemory, type PartNames, partsNamed, type RunConfig } from "../lab/run/configuration.ts";
import { costFrom } from "../lab/run/cost-file.ts";
import { asSent } from "../lab/run/load.ts";
import { OperationsPlayer, readOperations } from "../lab/run/operations-file.ts";
import { engineCapacity, engineFrom, type RealEngine } from "../lab/run/real-engine.ts";
import { distinctPromptBlocks } from "../lab/run/run.ts";
import type { SimulationOptions } from "../lab/run/simulation-options.ts";
import { verifyDecisions } from "../lab/verify/verification.ts";
import { verifyReport } from "../lab/verify/verify-report.ts";
import { longestDesignedAnswer } from "../traces/calibration.ts";
import { shortened } from "../traces/shorten.ts";
import {
  addBlockSize,
  addParts,
  addTraceOptions,
  engineTargetOption,
  parseCapacity,
  path,
  wholeNumber,
} from "./input/options.ts";
import { addSimulationOptions, checkTarget, ofSimulator } from "./input/simulation-options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { parseRules } from "./replay.ts";
import { verifyText } from "./verify/verify-text.ts";

interface VerifyOptions extends PartNames, TraceReading, SimulationOptions {
  readonly target: BackendName;
  readonly rule?: readonly string[];
  readonly blocks?: Capacity;
  readonly blockSize?: number;
  readonly seed: number;
  readonly audit?: boolean;
  readonly operations?: string;
  readonly shorten: number;
  readonly timeline?: string;
  readonly calibrate?: number;
  readonly json?: boolean;
}

/** Exit code of a check that failed. */
const different = 1;

const examples = `
Examples:
  kvlab verify --preset vllm --limit 100
  kvlab verify trace.jsonl --preset sglang --scheduler lpm --blocks 5%
  kvlab verify trace.jsonl.gz --limit 300 --shorten 128 --rate 100
  kvlab verify trace.jsonl --model ./llama --preset vllm --capacity 2GiB --json
  kvlab calibrate --out cost.json && kvlab verify --cost cost.json
  kvlab verify trace.jsonl --model random:15m --rate 2 --calibrate 1

With --cost, the engine's times are shown beside those that the simulator
foretells. With --calibrate, the trace is served twice, in turn with designed
steps of which the cost model is made, so that a machine that is slow for a
while is slow for all of them. Exit code 1 if a decision is different. Options
as of kvlab replay --target ${defaultBackend.name}.`;

export function addVerify(program: Command): void {
  const described = program
    .command("verify")
    .description("serve a trace with an engine and replay it in the simulator: do both decide the same?")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example');
  const command = addParts(described).option(
    "--blocks <N>",
    "blocks of the cache, or N% of the distinct blocks",
    parseCapacity,
  );
  addSimulationOptions(addTraceOptions(addBlockSize(command)))
    .addOption(engineTargetOption("with which the simulator is compared"))
    .option("--seed <N>", "for policies that draw lots", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .option("--shorten <N>", "divide the lengths of contents and answers by N", wholeNumber("--shorten", 1), 1)
    .option("--audit", "check every invariant after every step; slow")
    .option(
      "--operations <FILE>",
      "pin, unpin, delete, evict, reset meanwhile (JSON lines)",
      path("--operations", "a file"),
    )
    .option(
      "--calibrate <ROUNDS>",
      "compare times, too: measure meanwhile what steps take, so many times",
      wholeNumber("--calibrate", 1, 1000),
    )
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(verify);
  for (const option of command.options) if (refused.includes(option.attributeName())) option.hideHelp();
}

/** Options of a replay that have no meaning here. */
const refused: readonly string[] = [...ofSimulator.filter((name) => name !== "cost"), "timeline"];

async function verify(files: readonly string[], options: VerifyOptions): Promise<void> {
  const parts = await partsNamed(options, parseRules(options.rule ?? []), options.target);
  const { cost: _, ...others } = options;
  checkTarget(others);
  const cost = options.cost === undefined ? undefined : await costFrom(options.cost);
  if (options.timeline !== undefined) throw new InputError("--timeline goes with kvlab replay");
  if (options.calibrate !== undefined && cost !== undefined)
    throw new InputError("--calibrate and --cost exclude each other: both say what steps take");
  if (options.calibrate !== undefined && options.pace === "real")
    throw new InputError("--calibrate and --pace real exclude each other: engines that take turns have no real time");
  if (options.blocks !== undefined && options.capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both are the size of the cache");
  const operations = options.operations === undefined ? undefined : await readOperations(options.operations);
  const progress = new Progress();
  try {
    const read = await readInput(files, options, progress, interruption);
    const input = withTrace(read, shortened(asSent(read.trace, options), options.shorten));
    const { trace } = input;
    const engine = engineFrom(options, trace);
    const blockTokens = blockTokensFor(trace, options.blockSize, parts.preset);
    const blocks = CacheReplay.blockKeys({ ...parts, blockTokens, blocks: undefined, seed: options.seed }, trace);
    const capacity = engineCapacity(options, engine, blockTokens) ?? defaultCapacity;
    const config: RunConfig = {
      ...parts,
      blockTokens,
      blocks: parts.eviction.unlimited ? undefined : blocksOf(capacity, distinctPromptBlocks(blocks)),
      schedulerOptions: { ...parts.schedulerOptions, ...options.schedulerOption },
      seed: options.seed,
      audit: options.audit ?? false,
    };
    checkMemory(config.blocks);
    const before = () => {
      const player = operations && new OperationsPlayer(operations, trace, blocks);
      return player && (((...args) => player.before(...args)) satisfies RunConfig["before"]);
    };
    const experiment =
      options.calibrate === undefined ? undefined : experimentFor(trace, config, engine, options.calibrate);
    progress.start("serving", experiment ? 2 * trace.requestCount + experiment.trace.requestCount : trace.requestCount);
    const advance = (requests: number) => progress.advance(requests);
    const verification = await withEngine(() =>
      verifyDecisions(trace, blocks, config, engine, { before, cost, experiment, advance, signal: interruption }),
    );
    progress.done();
    const report = verifyReport(input, blocks, config, engine, verification, options.shorten);
    print(`${options.json ? JSON.stringify(report, undefined, 2) : verifyText(input, report)}\n`);
    if (!report.identical) process.exitCode = different;
  } finally {
    progress.done();
  }
}

/** Requests of the experiment at once. Where more run at once, it is the fit that foretells them. */
const maxBatch = 8;

/** Steps like those of the trace: prompts up to the length of its longest, as far as the model has room for their answers. */
function experimentFor(trace: Trace, { blockTokens, seed }: RunConfig, engine: RealEngine, rounds: number): Experiment {
  const longest = trace.inputTokens.reduce((most, tokens) => Math.max(most, tokens), 0);
  const room = engine.loaded.config.maxPositions - longestDesignedAnswer;
  const maxTokens = Math.max(2 * blockTokens, Math.min(longest, room));
  return experimentOf({ unitTokens: blockTokens, maxTokens, maxBatch, rounds, seed });
}

function withTrace(input: Input, trace: Trace): Input {
  const sum = (column: Uint32Array) => column.reduce((total, tokens) => total + tokens, 0);
  return { ...input, trace, inputTokens: sum(trace.inputTokens), outputTokens: sum(trace.outputTokens) };
}
