import { basename, dirname, join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import type { EvictionPlugin } from "../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../core/plugins/rules.ts";
import { CacheReplay } from "../core/replica/replay.ts";
import type { Trace } from "../core/trace/trace.ts";
import { defaultBackend } from "../engine/backends.ts";
import { Interrupted } from "../lab/control.ts";
import type { TraceReading } from "../lab/input.ts";
import { type Input, readInput } from "../lab/input.ts";
import { commandOf } from "../lab/output/command-line.ts";
import { machineReport, type RunReport, runReport, setupReport } from "../lab/output/report.ts";
import { checkWritable, claimRunDirectory } from "../lab/output/run-directory.ts";
import { runId, runsFolder, saveRun } from "../lab/output/save.ts";
import { TimelineFile } from "../lab/output/timeline-file.ts";
import { blocksOf, type Capacity, defaultCapacity } from "../lab/run/capacity.ts";
import {
  blockTokensFor,
  checkMemory,
  defaultParts,
  type PartNames,
  partsNamed,
  type RunConfig,
  simulatedScheduler,
} from "../lab/run/configuration.ts";
import type { LiveRun } from "../lab/run/live.ts";
import { asSent } from "../lab/run/load.ts";
import { OperationsPlayer, readOperations } from "../lab/run/operations-file.ts";
import { engineCapacity, engineFrom } from "../lab/run/real-engine.ts";
import { distinctPromptBlocks, runReplay, servedRequests } from "../lab/run/run.ts";
import { capacityFrom, simulatedFrom } from "../lab/run/simulation.ts";
import type { SimulationOptions } from "../lab/run/simulation-options.ts";
import { isEngine, type Target } from "../lab/run/target.ts";
import {
  addBlockSize,
  addLaterOptions,
  addRunOptions,
  addTraceOptions,
  parseCapacity,
  parseRuleOption,
  path,
  rule,
  wholeNumber,
} from "./input/options.ts";
import { addSimulationOptions, checkTarget } from "./input/simulation-options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { complain, print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { summary } from "./output/summary.ts";

interface ReplayOptions extends PartNames, TraceReading, SimulationOptions {
  readonly target: Target;
  readonly rule?: readonly string[];
  readonly blocks?: Capacity;
  readonly blockSize?: number;
  readonly warmup: number;
  readonly seed: number;
  readonly repeat?: number;
  readonly audit?: boolean;
  readonly events?: boolean;
  readonly operations?: string;
  readonly timeline?: string;
  readonly out?: string;
  readonly save: boolean;
  readonly live?: boolean;
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab replay                                  the built-in example
  kvlab replay trace.jsonl.gz --blocks 10000
  kvlab replay trace.jsonl --preset vllm --eviction lfu
  kvlab replay trace.jsonl --blocks 25% --eviction ./mine.ts
  kvlab replay trace.jsonl --index none --json --no-save
  kvlab replay trace.jsonl --operations pins.jsonl --rule pin-blocks=100
  kvlab replay trace.jsonl --target sim --preset vllm --model llama-3.1-8b \\
    --gpu h200 --rate 5 --slo ttft=500ms,tpot=50ms
  kvlab replay trace.jsonl --target ${defaultBackend.name} --pace real --live --events

Without --blocks the cache has 10 % of the trace's distinct blocks; with
--target sim, what fits into the memory of the GPU beside the model.`;

export function addReplay(program: Command): void {
  const command = program
    .command("replay")
    .description("run one configuration over a trace and say what hit, what missed and why")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example')
    .option("--preset <NAME>", "a real system's composition, of which the options below change parts")
    .addOption(part("--index <NAME>", "prefix index, or a file with one of your own", defaultParts.index))
    .addOption(part("--eviction <NAME>", "eviction policy, or a file with one of your own", defaultParts.eviction))
    .addOption(part("--allocator <NAME>", "allocator", defaultParts.allocator))
    .addOption(part("--scheduler <NAME>", "scheduler", `${defaultParts.scheduler} (sim: ${simulatedScheduler})`))
    .option("--rule <NAME=VALUE>", "a reuse rule (repeatable; kvlab policies lists them)", rule)
    .option("--blocks <N>", "blocks of the cache, N% of the distinct blocks, or unlimited", parseCapacity);
  addTraceOptions(addBlockSize(command));
  addSimulationOptions(addRunOptions(command))
    .option("--repeat <N>", "replay N times after a warm-up and report the median time", wholeNumber("--repeat", 1))
    .option("--events", "keep the log of every decision")
    .option(
      "--operations <FILE>",
      "pin, unpin, delete, evict, reset meanwhile (JSON lines)",
      path("--operations", "a file"),
    )
    .option("--out <DIR>", `save the run there instead of in ${runsFolder}/`, path("--out", "a folder"))
    .option("--no-save", "do not save the run")
    .option("--live", "let a dashboard over the folder of runs show it meanwhile")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(replay);
  addLaterOptions(command);
}

/** An option for a part of the composition. */
function part(flags: string, description: string, initial: string): Option {
  return new Option(flags, description).default(undefined, `${initial}, or the preset's`);
}

async function replay(files: readonly string[], options: ReplayOptions): Promise<void> {
  const rules = parseRules(options.rule ?? []);
  const parts = await partsNamed(options, rules, options.target);
  checkTogether(options, parts.eviction);
  checkTarget(options);
  const operations = options.operations === undefined ? undefined : await readOperations(options.operations);
  if (options.out !== undefined) await claimRunDirectory(options.out);
  else if (options.save) await checkWritable(runsFolder, runsFolder);
  const timeline =
    options.timeline === undefined
      ? undefined
      : await TimelineFile.open(options.timeline, [...files, ...filesOf(options)]);

  const progress = new Progress();
  let live: LiveRun | undefined;
  try {
    const read = await readInput(files, options, progress, interruption);
    const input = { ...read, trace: asSent(read.trace, options) };
    const { trace } = input;
    checkWarmup(options.warmup, trace);
    const simulated = options.target === "sim" ? await simulatedFrom(options, trace) : undefined;
    const engine = isEngine(options.target) ? engineFrom(options, trace) : undefined;
    const configured = {
      ...parts,
      blockTokens: blockTokensFor(trace, options.blockSize, parts.preset),
      blocks: undefined,
      seed: options.seed,
    };
    const blocks = CacheReplay.blockKeys(configured, trace);
    const distinctBlocks = distinctPromptBlocks(blocks);
    const capacity = engine
      ? engineCapacity(options, engine, configured.blockTokens)
      : await capacityFrom(options, simulated, configured);
    const player = operations && new OperationsPlayer(operations, trace, blocks);
    const config: RunConfig = {
      ...configured,
      ...(player && { before: (...args) => player.before(...args) }),
      blocks: parts.eviction.unlimited ? undefined : blocksOf(capacity ?? defaultCapacity, distinctBlocks),
      schedulerOptions: { ...parts.schedulerOptions, ...options.schedulerOption },
      simulated,
      engine,
      warmup: options.warmup,
      events: options.events ?? false,
      audit: options.audit ?? false,
    };
    checkMemory(config.blocks);
    const { repeat, save } = options;
    live = await liveRun(input, config, options);
    progress.start(simulated ? "simulating" : engine ? "serving" : "replaying", servedRequests(trace, repeat));
    const run = await withEngine(() =>
      runReplay(trace, blocks, config, {
        repeat,
        keepSteps: save,
        observers: timeline ? [timeline.timeline] : [],
        advance: (requests) => progress.advance(requests),
        watch: (run) => live?.watch(run),
        signal: interruption,
      }),
    );
    live?.saving();
    await timeline?.close();
    progress.done();

    const report = runReport(input, blocks, run, player?.results);
    let directory: string | undefined;
    if (save) {
      progress.state("saving");
      const claimed = await claimRunDirectory(options.out ?? join(runsFolder, runId(input, report)));
      await saveRun(
        claimed,
        run,
        report,
        commandOf(report, options, options.rule ?? []),
        report.interrupted ? undefined : interruption,
      );
      directory = claimed.path;
      progress.done();
    }
    const facts = {
      traceName: input.name,
      distinctBlocks,
      byDefault: capacity === undefined && !parts.eviction.unlimited,
      directory,
      timeline: options.timeline,
      series: run.simulation?.series,
      repeat,
      usualBlockTokens: parts.preset?.blockTokens,
      leftOut: parts.leftOut,
    };
    const shown = options.json ? JSON.stringify(report, undefined, 2) : summary(report, facts);
    print(`${shown}\n`);
    const { interrupted } = report;
    if (interrupted) throw new Interrupted(afterSo(interrupted, directory));
  } finally {
    live?.close();
    progress.done();
  }
}

/** Whoever has started this program watches the runs of this folder, whether or not it is told to let others do so. */
const watchedRuns = process.env["KVLAB_LIVE"];

/** What tells of the run while it is under way, if it is to be told of. */
async function liveRun(input: Input, config: RunConfig, options: ReplayOptions): Promise<LiveRun | undefined> {
  const { live, out, save, operations, repeat } = options;
  const runs = watchedRuns ?? (live ? (out === undefined ? runsFolder : dirname(out)) : undefined);
  if (runs === undefined || repeat !== undefined) return undefined;
  const setup = setupReport(input, config);
  const { simulated, engine } = config;
  const id = () =>
    // What operations come to is part of a run's id.
    operations === undefined
      ? runId(input, { ...setup, ...machineReport(config), slo: (simulated ?? engine)?.slo })
      : undefined;
  const run = !save ? undefined : out === undefined ? id() : basename(resolve(out));
  const { preset, index, eviction, allocator, scheduler, rules, blocks, blockTokens } = setup.policy;
  const { LiveRun } = await import("../lab/run/live.ts");
  return await LiveRun.open(
    runs,
    {
      ...{ command: commandOf(setup, options, options.rule ?? []), run: run ?? null, trace: input.name },
      ...{ requests: input.trace.requestCount, target: setup.target as Target },
      ...{ preset, index, eviction, allocator, scheduler, victims: rules.victims, blocks, blockTokens },
    },
    (message) => complain(message, 0),
  );
}

/** How far it came, and where that is kept. */
const afterSo = ({ requestsDone, of }: NonNullable<RunReport["interrupted"]>, directory: string | undefined) =>
  ` after ${requestsDone} of ${counted(of, "request")}; ${directory === undefined ? "not saved" : `those are kept in ${directory}`}`;

/** What is read besides the trace; names that are no files do no harm. */
const filesOf = ({ operations, cost, model }: ReplayOptions) =>
  [operations, cost, model].filter((file) => file !== undefined);

/** @throws InputError if two options contradict each other. */
function checkTogether(
  { out, save, events, blocks, capacity, operations, repeat, timeline, live, replicas = 1 }: ReplayOptions,
  eviction: EvictionPlugin,
): void {
  if (blocks !== undefined && capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both are the size of the cache");
  if (timeline !== undefined && repeat !== undefined)
    throw new InputError("--timeline and --repeat exclude each other: a timeline is of one run");
  if (live && repeat !== undefined)
    throw new InputError("--live and --repeat exclude each other: what is shown meanwhile is one run");
  if (operations !== undefined && repeat !== undefined)
    throw new InputError("--operations and --repeat exclude each other: operations are for one replay");
  if (operations !== undefined && replicas > 1)
    throw new InputError("--operations goes with one replica: it does not say which of several is meant");
  if (out !== undefined && !save) throw new InputError("--out and --no-save exclude each other");
  if (events && !save)
    throw new InputError("--events and --no-save exclude each other: the log is part of a saved run");
  if (eviction.unlimited && (capacity !== undefined || (blocks !== undefined && blocks !== "unlimited")))
    throw new InputError(
      `--${capacity === undefined ? "blocks" : "capacity"} and --eviction ${eviction.name} exclude each other: its cache has no limit`,
    );
}

/** @throws InputError if there is no such rule, or one has several values */
export function parseRules(texts: readonly string[]): Partial<Record<RuleName, RuleValue>> {
  const rules: Partial<Record<RuleName, RuleValue>> = {};
  for (const text of texts) {
    const { name, values } = parseRuleOption(text);
    if (values.length > 1) throw new InputError(`--rule ${text}: one run has one value; kvlab compare takes several`);
    rules[name] = values[0];
  }
  return rules;
}

/** @throws InputError if nothing would be left to report. */
export function checkWarmup(warmup: number, { requestCount }: Trace): void {
  if (warmup >= requestCount)
    throw new InputError(`--warmup is ${warmup}, the trace has only ${requestCount} requests`);
}
