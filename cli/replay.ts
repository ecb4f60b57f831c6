import { dirname } from "node:path";
import { Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import type { RuleName, RuleValue } from "../core/plugins/rules.ts";
import { defaultBackend } from "../engine/backends.ts";
import { Interrupted } from "../lab/control.ts";
import type { TraceReading } from "../lab/input.ts";
import type { RunReport } from "../lab/output/report.ts";
import { runsFolder } from "../lab/output/save.ts";
import type { Capacity } from "../lab/run/capacity.ts";
import { defaultParts, type PartNames, simulatedScheduler } from "../lab/run/configuration.ts";
import { streamTrace } from "../lab/run/run-trace.ts";
import type { SimulationOptions } from "../lab/run/simulation-options.ts";
import type { Target } from "../lab/run/target.ts";
import type { TargetOptions } from "../lab/run/trace-run.ts";
import {
  addBlockSize,
  addRenamedOptions,
  addRunOptions,
  addTraceOptions,
  parseCapacity,
  parseRuleOption,
  path,
  rule,
  wholeNumber,
} from "./input/options.ts";
import { addSimulationOptions } from "./input/simulation-options.ts";
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
  readonly explain?: readonly number[];
  readonly explainTop?: number;
  readonly residency?: boolean;
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
  kvlab replay trace.jsonl --blocks 10% --explain-top 5 --residency
  kvlab replay trace.jsonl --target sim --preset vllm --model llama-3.1-8b \\
    --gpu h200 --rate 5 --slo ttft=500ms,tpot=50ms
  kvlab replay trace.jsonl --target sim --replicas 4 \\
    --network client=2ms,router=0.2ms
  kvlab replay trace.jsonl --target sim --prefill-replicas 1 \\
    --decode-replicas 2 --kv-link 50GB/s,10us
  kvlab replay trace.jsonl --target sim --speculate tokens=4,acceptance=0.7
  kvlab replay trace.jsonl --target ${defaultBackend.name} --pace real --live --events

The default of --blocks is 10 % of the trace's distinct blocks; with --target
sim, the blocks that fit into the GPU's memory beside the model.`;

export function addReplay(program: Command): void {
  const command = program
    .command("replay")
    .description("run one configuration over a trace and report hits, misses and their reasons")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example');
  addReplayOptions(command).addHelpText("after", examples).action(replay);
  addRenamedOptions(command);
}

function addReplayOptions(command: Command): Command {
  command
    .option("--preset <NAME>", "composition of a real system; the options below replace its parts")
    .addOption(part("--index <NAME>", "prefix index, or a plug-in file", defaultParts.index))
    .addOption(part("--eviction <NAME>", "eviction policy, or a plug-in file", defaultParts.eviction))
    .addOption(part("--allocator <NAME>", "allocator, or a plug-in file", defaultParts.allocator))
    .addOption(
      part(
        "--scheduler <NAME>",
        "scheduler, or a plug-in file",
        `${defaultParts.scheduler} (sim: ${simulatedScheduler})`,
      ),
    )
    .option("--rule <NAME=VALUE>", "reuse rule (repeatable; kvlab policies lists them)", rule)
    .option("--blocks <N>", "capacity in blocks, N% of the distinct blocks, or unlimited", parseCapacity);
  addTraceOptions(addBlockSize(command));
  return addSimulationOptions(addRunOptions(command))
    .option("--repeat <N>", "replay N times after a first run and report the median time", wholeNumber("--repeat", 1))
    .option("--events", "save the event log: every decision")
    .option("--explain <REQUEST>", "explain the hits and misses of this request, from 0 (repeatable)", explainedRequest)
    .option(
      "--explain-top <N>",
      "explain the N requests with the most missed tokens that had been cached, and the N costliest evictions",
      wholeNumber("--explain-top", 1),
    )
    .option("--residency", "report ages at hits and evictions, lifetimes and hits of blocks")
    .option(
      "--operations <FILE>",
      "pin, unpin, delete, evict and reset during the run (JSON lines)",
      path("--operations", "a file"),
    )
    .option("--out <DIR>", `save the run in DIR instead of below ${runsFolder}/`, path("--out", "a folder"))
    .option("--no-save", "do not save the run")
    .option("--live", "show the run in a dashboard of its folder while it runs")
    .option("--json", "print one JSON document and nothing else");
}

/** The long names of the options. */
export const replayOptionNames = (): string[] =>
  addReplayOptions(new Command("replay")).options.flatMap(({ long }) => long?.slice(2) ?? []);

/** Parses the options of a replay, without a trace: a function that may be called repeatedly. @throws InputError */
export function replayOptionsParser(): (words: readonly string[]) => ReplayOptions & Pick<TargetOptions, "rules"> {
  const command = addRenamedOptions(addReplayOptions(new Command("replay")))
    .configureOutput({ writeErr: () => {} })
    .exitOverride();
  return (words) => {
    const options = command.parse(words, { from: "user" }).opts<ReplayOptions>();
    return { ...options, rules: parseRules(options.rule ?? []) };
  };
}

const parseRequest = wholeNumber("--explain", 0);

/** A parser for `--explain`. */
function explainedRequest(text: string, before: readonly number[] = []): number[] {
  const request = parseRequest(text);
  if (before.includes(request)) throw new InputError(`--explain ${request} is given twice`);
  return [...before, request];
}

/** An option for a plug-in of the composition. */
function part(flags: string, description: string, initial: string): Option {
  return new Option(flags, `${description} (default: ${initial}, or the preset's)`);
}

async function replay(files: readonly string[], given: ReplayOptions): Promise<void> {
  const options = { ...given, rules: parseRules(given.rule ?? []) };
  checkConflicts(options);
  const { out, save, repeat, timeline } = options;
  const progress = new Progress();
  try {
    const run = await withEngine(() =>
      streamTrace(files, {
        ...options,
        save: !save ? undefined : out === undefined ? { below: runsFolder } : { as: out },
        live: liveFolder(options),
        progress: progress.follow,
        note: progress.note,
        signal: interruption,
      }),
    );
    progress.done();
    const { report, directory, parts } = run;
    const facts = {
      traceName: run.traceName,
      distinctBlocks: run.distinctBlocks,
      isDefaultSize: run.isDefaultSize,
      directory,
      timeline,
      series: run.series,
      lengthsOnly: run.lengthsOnly,
      repeat,
      presetBlockTokens: parts.preset?.blockTokens,
      rulesNotApplied: parts.leftOut,
    };
    const shown = options.json ? JSON.stringify(report, undefined, 2) : summary(report, facts);
    print(`${shown}\n`);
    const { interrupted } = report;
    if (interrupted) throw new Interrupted(interruptedText(interrupted, directory));
  } finally {
    progress.done();
  }
}

/** Set by a dashboard that started this program: its folder of runs, in which it shows the run. */
const watchedRuns = process.env["KVLAB_LIVE"];

function liveFolder({ live, out }: ReplayOptions) {
  const runs = watchedRuns ?? (live ? (out === undefined ? runsFolder : dirname(out)) : undefined);
  return runs === undefined ? undefined : { runs, warn: (message: string) => void complain(message, 0) };
}

/** The finished requests of an interrupted run, and where they are saved. */
const interruptedText = ({ requestsDone, of }: NonNullable<RunReport["interrupted"]>, directory: string | undefined) =>
  ` after ${requestsDone} of ${counted(of, "request")}; ${directory === undefined ? "not saved" : `they are saved in ${directory}`}`;

/** @throws InputError if two options contradict each other */
function checkConflicts({ out, save, events, repeat, live }: ReplayOptions): void {
  if (live && repeat !== undefined)
    throw new InputError("--live and --repeat exclude each other: a dashboard shows one run");
  if (out !== undefined && !save) throw new InputError("--out and --no-save exclude each other");
  if (events && !save)
    throw new InputError("--events and --no-save exclude each other: the log is part of a saved run");
}

/** @throws InputError if a rule is unknown or has several values */
export function parseRules(texts: readonly string[]): Partial<Record<RuleName, RuleValue>> {
  const rules: Partial<Record<RuleName, RuleValue>> = {};
  for (const text of texts) {
    const { name, values } = parseRuleOption(text);
    if (values.length > 1) throw new InputError(`--rule ${text}: one run has one value; kvlab compare takes several`);
    rules[name] = values[0];
  }
  return rules;
}
