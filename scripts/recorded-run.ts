// A recorded run of an engine, and the simulation of it: what docs/fidelity.md and its test compare.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { distribution } from "../core/serving/figures.ts";
import { StepTable } from "../core/serving/step-table.ts";
import { readTrace, type Trace } from "../core/trace.ts";
import { presetRegistry, schedulerRegistry } from "../policies/registry.ts";
import { cacheBytes } from "../sim/cost/capacity.ts";
import { hardwareNamed } from "../sim/cost/hardware.ts";
import { kvTokenBytes } from "../sim/cost/kv-bytes.ts";
import { modelNamed } from "../sim/cost/models.ts";
import { type Efficiency, Roofline } from "../sim/cost/roofline.ts";
import { simulate } from "../sim/simulation.ts";
import { openTrace } from "../traces/open.ts";

/** Of each request, in the order of the trace, in milliseconds. */
export interface RequestTimes {
  /** From when the engine takes the request from its input, which it does between steps, to the first token. */
  readonly ttftMs: Float64Array;
  /** Per token after the first. */
  readonly tpotMs: Float64Array;
  /** To the last token. */
  readonly latencyMs: Float64Array;
}

/** What a run of an engine was, and what came of it. */
export interface RecordedRun {
  readonly trace: Trace;
  readonly model: string;
  readonly gpu: string;
  readonly memoryShare: number;
  readonly maxSequences: number;
  readonly maxTokens: number;
  readonly times: RequestTimes;
  /** What another simulator found of the whole run, by figure: simulated ÷ recorded − 1. */
  readonly otherSimulator: ReadonlyMap<string, number>;
}

/** Reads a trace of token ids and the folder of its run (requests.jsonl, meta.json, config.json, summary.txt). */
export async function readRecordedRun(tracePath: string, folder: string): Promise<RecordedRun> {
  const text = (name: string) => readFile(join(folder, name), "utf8");
  const { engine_kwargs: engine } = JSON.parse(await text("meta.json"));
  const [{ instances }] = JSON.parse(await text("config.json")).nodes;
  const trace = await readTrace(await openTrace([tracePath]));
  const lines = (await text("requests.jsonl")).trim().split("\n");
  const requests = lines.map((line) => JSON.parse(line));
  requests.sort((a, b) => numberOf(a.request_id) - numberOf(b.request_id));
  requests.forEach((request, row) => {
    if (request.input_toks !== trace.inputTokens[row] || request.output_toks !== trace.outputTokens[row])
      throw new Error(`${request.request_id} is not request ${row} of ${tracePath}`);
  });
  const ms = (of: (request: (typeof requests)[number]) => number) =>
    Float64Array.from(requests, (one) => 1e3 * of(one));
  return {
    trace,
    model: engine.model,
    gpu: instances[0].hardware,
    memoryShare: instances[0].npu_mem.mem_util,
    maxSequences: engine.max_num_seqs,
    maxTokens: engine.max_num_batched_tokens,
    times: {
      ttftMs: ms((one) => one.first_token_ts - one.queued_ts),
      tpotMs: ms((one) => (one.last_token_ts - one.first_token_ts) / (one.output_toks - 1)),
      latencyMs: ms((one) => one.last_token_ts - one.queued_ts),
    },
    otherSimulator: differencesIn(await text("summary.txt")),
  };
}

/** Lines such as "TTFT Median  9442.7  8633.9  -8.6%", by our names for them. */
function differencesIn(summary: string): ReadonlyMap<string, number> {
  const lines = summary.matchAll(/^(TTFT|TPOT|Latency) (Mean|Median|P\d+) .* ([-+][\d.]+)%$/gm);
  return new Map(
    Array.from(lines, ([, kind, figure, percent]) => [
      `${kind} ${figure}`.toLowerCase().replace("median", "p50"),
      Number(percent) / 100,
    ]),
  );
}

const numberOf = (id: string) => Number(id.split("-")[1]);

/** The same requests on the simulated engine. */
export function simulateRecorded(run: RecordedRun, efficiency: Partial<Efficiency> = {}): RequestTimes {
  const { trace, memoryShare, maxSequences, maxTokens } = run;
  const shape = modelNamed(run.model);
  const hardware = hardwareNamed(run.gpu);
  const vllm = presetRegistry.get("vllm");
  const blockTokens = 16;
  const bytes = cacheBytes({ shape, hardware, memoryShare, stepTokens: maxTokens });
  const cost = new Roofline({ shape, hardware, blockTokens, efficiency });
  const steps = new StepTable();
  const { arrivals } = simulate(trace, {
    ...vllm,
    scheduler: schedulerRegistry.get(vllm.scheduler),
    blockTokens,
    blocks: Math.floor(bytes / kvTokenBytes(shape, shape.numberBytes) / blockTokens),
    schedulerOptions: {
      "max-num-seqs": maxSequences,
      "max-num-batched-tokens": maxTokens,
      "async-scheduling": 1,
    },
    seed: 1,
    cost: () => cost,
    observer: steps,
  });
  const { arrivalNs, firstTokenNs, finishedNs, outputTokens } = arrivals.batches[0].outcomes;
  const queuedNs = takenAt(arrivalNs, steps.startNs);
  const ms = (of: (row: number) => number) => Float64Array.from(arrivalNs, (_, row) => of(row) / 1e6);
  return {
    ttftMs: ms((row) => firstTokenNs[row] - queuedNs[row]),
    tpotMs: ms((row) => (finishedNs[row] - firstTokenNs[row]) / (outputTokens[row] - 1)),
    latencyMs: ms((row) => finishedNs[row] - queuedNs[row]),
  };
}

/** When the next step after each arrival begins. Both are in their order. */
function takenAt(arrivalNs: Float64Array, startNs: readonly number[]): Float64Array {
  let step = 0;
  return arrivalNs.map((at) => {
    while (startNs[step] < at) step++;
    return startNs[step];
  });
}

/** What is compared, by what it is called: of each kind of time its mean and some quantiles. */
export interface Comparison {
  readonly name: string;
  readonly recordedMs: number;
  readonly simulatedMs: number;
  /** Simulated ÷ recorded − 1. */
  readonly difference: number;
}

/** Figures of requests [from, to). */
export function compare(recorded: RequestTimes, simulated: RequestTimes, from: number, to: number): Comparison[] {
  return (["ttftMs", "tpotMs", "latencyMs"] as const).flatMap((kind) => {
    const [a, b] = [recorded, simulated].map((times) => distribution(times[kind].slice(from, to))!);
    return (["mean", "p50", "p90", "p95", "p99"] as const).map((figure) => ({
      name: `${kind.slice(0, -2)} ${figure}`,
      recordedMs: a[figure],
      simulatedMs: b[figure],
      difference: b[figure] / a[figure] - 1,
    }));
  });
}
