import type { Command } from "commander";
import type { ErrorRow } from "../lab/fidelity/errors.ts";
import { type FidelityReport, fidelity } from "../lab/fidelity/fidelity.ts";
import type { NamedNumbers } from "../lab/run/simulation-options.ts";
import { path, wholeNumber } from "./input/options.ts";
import { namedNumber } from "./input/simulation-options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { aligned, colors, wrapped } from "./output/table.ts";

interface FidelityOptions {
  readonly cost?: string;
  readonly efficiency?: NamedNumbers;
  readonly null?: boolean;
  readonly fitTo?: string;
  readonly seed: number;
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab fidelity sharegpt.jsonl ./vllm-rtx4090
  kvlab fidelity sharegpt.jsonl ./vllm-rtx4090 --cost roofline
  kvlab fidelity sharegpt.jsonl ./vllm-rtx4090 --cost profile:./mine --json
  kvlab fidelity sharegpt.jsonl ./vllm-rtx4090 --null --fit-to ./vllm-rtxpro6000

RECORD is a folder with requests.jsonl (queued_ts, first_token_ts and
last_token_ts of each request, in seconds), meta.json (vLLM's options) and
config.json (the hardware); docs/fidelity.md describes them.`;

/** Adds `kvlab fidelity`. */
export function addFidelity(program: Command): void {
  program
    .command("fidelity")
    .description("compare the simulator's predictions with a recorded run of vLLM")
    .argument("<TRACE>", "the trace that was served, with token ids")
    .argument("<RECORD>", "the folder of the recorded run")
    .option(
      "--cost <FILE>",
      "step times, as in kvlab replay --target sim (default: a profile if there is one)",
      path("--cost", "a file"),
    )
    .option("--efficiency <NAME=N>", "factor of the roofline model (repeatable)", namedNumber("--efficiency"))
    .option("--null", "simulate with a null model: step time = a + b · prompt tokens")
    .option(
      "--fit-to <RECORD>",
      "fit the null model to this run (default: RECORD itself)",
      path("--fit-to", "a folder"),
    )
    .option("--seed <N>", "random seed of the bootstrap intervals", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(async (trace: string, record: string, { json, ...options }: FidelityOptions) => {
      const progress = new Progress();
      try {
        const report = await fidelity(trace, record, { ...options, progress: progress.follow, signal: interruption });
        progress.done();
        print(`${json ? JSON.stringify(report, undefined, 2) : text(report)}\n`);
      } finally {
        progress.done();
      }
    });
}

const percent = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)} %`;

function text({
  trace,
  record,
  requests,
  engine,
  cost,
  rows,
  fitted,
  preemptions,
  hitTokens,
  ...rest
}: FidelityReport) {
  const { version, model, gpu, tensorParallel, dataParallel, expertParallel, maxSequences, maxTokens, blocks } = engine;
  const parallel = [
    ...(tensorParallel > 1 ? [`TP ${tensorParallel}`] : []),
    ...(dataParallel > 1 ? [`DP ${dataParallel}`] : []),
    ...(expertParallel ? ["expert parallel"] : []),
  ];
  const facts = [
    ["trace", `${trace}: ${requests} requests`],
    ["record", `${record}: vLLM ${version}, ${[model, gpu, ...parallel].join(", ")}`],
    [
      "limits",
      `${maxSequences} sequences, ${maxTokens} tokens a step, ${blocks === undefined ? "as many blocks as fit" : `${blocks} blocks`}`,
    ],
    ["cost", `${cost}; ${fittedText(fitted)}`],
  ];
  const head = ["", "", "recorded", "simulated", "difference", "95 % interval"];
  const lines = rows.map(({ metric, statistic, recorded, simulated, difference, low, high }, i) => [
    rows[i - 1]?.metric === metric ? "" : nameOf(metric),
    metric === "makespanMs" ? "" : statistic,
    ...[recorded.toFixed(1), simulated.toFixed(1), percent(difference), `${percent(low)} to ${percent(high)}`],
  ]);
  const each = rest.requestErrors;
  const notes = [
    [
      "requests",
      `mean error of a request: TTFT ${each.ttftMsMeanAbsolute.toFixed(0)} ms, latency ${each.latencyMsMeanAbsolute.toFixed(0)} ms; ` +
        `TPOT: P5 ${percent(each.tpotP5)}, P95 ${percent(each.tpotP95)}`,
    ],
    ["order", `${(100 * each.firstTokensInOrder).toFixed(1)} % of the first tokens are in the recorded place`],
    ["cache", `${preemptions} preemptions, ${hitTokens} hit tokens`],
  ];
  const list = (pairs: readonly (readonly string[])[]) =>
    pairs.map(([name, value]) => `  ${name.padEnd(8)}  ${wrapped(value, 12, 12)}`).join("\n");
  return [list(facts), `${colors.bold("Times in ms")}\n${aligned([head, ...lines], "llrrrl")}`, list(notes)].join(
    "\n\n",
  );
}

const nameOf = (metric: ErrorRow["metric"]) =>
  ({ ttftMs: "TTFT", tpotMs: "TPOT", latencyMs: "latency", makespanMs: "makespan" })[metric];

function fittedText(fitted: FidelityReport["fitted"]): string {
  if (fitted.length === 0) return "nothing is fitted to a recorded run";
  const values = fitted.map(({ name, value }) => `${name} ${value.toPrecision(4)}`);
  return `fitted to ${fitted[0].to}: ${values.join(", ")}`;
}
