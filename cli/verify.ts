import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { type BackendName, defaultBackend } from "../engine/backends.ts";
import type { TraceReading } from "../lab/input.ts";
import type { Capacity } from "../lab/run/capacity.ts";
import { simulatorOptions } from "../lab/run/check-target.ts";
import type { PartNames } from "../lab/run/configuration.ts";
import { defaultModel } from "../lab/run/real-engine.ts";
import type { SimulationOptions } from "../lab/run/simulation-options.ts";
import { verify } from "../lab/verify/verify.ts";
import {
  addBlockSize,
  addParts,
  addRenamedOptions,
  addTraceOptions,
  engineTargetOption,
  parseCapacity,
  path,
  wholeNumber,
} from "./input/options.ts";
import { addSimulationOptions } from "./input/simulation-options.ts";
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
  readonly contents?: boolean;
  readonly contentsShare?: number;
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
  kvlab verify trace.jsonl --preset sglang --blocks 5% --contents

With --cost, the engine's times are shown beside the simulator's predictions.
With --calibrate, the trace is served twice, interleaved with designed steps to
which the cost model is fitted, so that a temporary slowdown of the machine
affects both. With --contents, keys and values in the blocks of sampled
requests, and the logits of sampled hits, are compared with those of a prefill
without the cache. Exit code: 0 if all decisions and contents are identical, 1
if not. The options are those of kvlab replay --target ${defaultBackend.name}.`;

export function addVerify(program: Command): void {
  const withTrace = program
    .command("verify")
    .description("serve a trace with an engine and in the simulator, and compare all decisions")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example');
  const command = addParts(withTrace).option(
    "--blocks <N>",
    "capacity in blocks, or N% of the distinct blocks",
    parseCapacity,
  );
  addSimulationOptions(addTraceOptions(addBlockSize(command)))
    .addOption(engineTargetOption("verify compares the simulator with an engine"))
    .option("--seed <N>", "random seed of policies", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .option("--shorten <N>", "divide the lengths of contents and outputs by N", wholeNumber("--shorten", 1), 1)
    .option("--audit", "check all invariants after every step (slow)")
    .option(
      "--operations <FILE>",
      "pin, unpin, delete, evict and reset during the run (JSON lines)",
      path("--operations", "a file"),
    )
    .option(
      "--calibrate <ROUNDS>",
      "also compare times, with a cost model from ROUNDS rounds of designed steps",
      wholeNumber("--calibrate", 1, 1000),
    )
    .option("--contents", "also compare keys, values and logits with recomputed ones")
    .option("--contents-share <P%>", "share of the sequences to recompute (default: limited by cost)", parseShare)
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(verifyTrace);
  addRenamedOptions(command);
  for (const option of command.options) {
    if (refused.includes(option.attributeName())) option.hideHelp();
    if (option.long === "--model") option.description = `model folder, or random:NAME (default: ${defaultModel})`;
  }
}

/** `10%`. @throws InputError */
function parseShare(text: string): number {
  const share = /^(\d+(?:\.\d+)?)%$/.exec(text);
  const percent = Number(share?.[1]);
  if (percent > 0 && percent <= 100) return percent / 100;
  throw new InputError(`--contents-share is "${text}", expected a percentage above 0% and up to 100%`);
}

/** Options of replay that verify refuses. */
const refused: readonly string[] = [...simulatorOptions.filter((name) => name !== "cost"), "timeline"];

async function verifyTrace(files: readonly string[], given: VerifyOptions): Promise<void> {
  const { timeline, ...options } = { ...given, rules: parseRules(given.rule ?? []) };
  if (timeline !== undefined) throw new InputError("--timeline is an option of kvlab replay");
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    const { report, input } = await withEngine(() =>
      verify(files, { ...options, ...control, backend: options.target }),
    );
    progress.done();
    print(`${options.json ? JSON.stringify(report, undefined, 2) : verifyText(input, report)}\n`);
    if (!report.identical || report.contents?.identical === false) process.exitCode = different;
  } finally {
    progress.done();
  }
}
