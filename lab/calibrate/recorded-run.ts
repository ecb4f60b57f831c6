import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { presetRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { cacheBytes } from "../../sim/cost/capacity.ts";
import type { CostModel } from "../../sim/cost/cost-model.ts";
import { hardwareNamed } from "../../sim/cost/hardware.ts";
import { kvTokenBytes } from "../../sim/cost/kv-bytes.ts";
import { modelNamed } from "../../sim/cost/models.ts";
import { type Efficiency, Roofline } from "../../sim/cost/roofline.ts";
import { simulate } from "../../sim/simulation.ts";
import { whyUnreadable } from "../../traces/lines.ts";
import { openTrace } from "../../traces/open.ts";

/** Times of the requests in trace order, in milliseconds. */
export interface RequestTimes {
  /** To the first token, from the time at which the engine accepts the request, which it does between steps. */
  readonly ttftMs: Float64Array;
  /** Per token after the first. */
  readonly tpotMs: Float64Array;
  /** To the last token, from the same time. */
  readonly latencyMs: Float64Array;
}

/** A run of vLLM: its trace, options and request times. */
export interface RecordedRun {
  readonly trace: Trace;
  readonly model: string;
  readonly gpu: string;
  readonly memoryShare: number;
  readonly maxSequences: number;
  readonly maxTokens: number;
  readonly times: RequestTimes;
}

const logName = "requests.jsonl";

/**
 * Reads a trace of token ids and the folder of its run: requests.jsonl (the times of queueing, first and last token of each
 * request, in seconds), meta.json (the engine's options) and config.json (its hardware).
 *
 * @throws InputError if a file is missing or malformed, or the requests are not those of the trace
 */
export async function readRecordedRun(tracePath: string, folder: string): Promise<RecordedRun> {
  const engine = await jsonOf(join(folder, "meta.json"));
  const cluster = await jsonOf(join(folder, "config.json"));
  const path = join(folder, logName);
  const lines = (await textOf(path)).trim().split("\n");
  const requests = lines.map((line, i) => requestOf(line, `${path}:${i + 1}`));
  requests.sort((a, b) => numberOf(a.request_id) - numberOf(b.request_id));
  const trace = await readTrace(await openTrace([tracePath]));
  const { requestCount, inputTokens, outputTokens } = trace;
  if (requests.length !== requestCount)
    throw new InputError(`${path}: has ${requests.length} requests, ${tracePath} ${requestCount}`);
  requests.forEach((request, row) => {
    if (request.input_toks === inputTokens[row] && request.output_toks === outputTokens[row]) return;
    throw new InputError(`${path}: ${request.request_id} is not request ${row} of ${tracePath}`);
  });
  const ms = (of: (request: LoggedRequest) => number) => Float64Array.from(requests, (one) => 1e3 * of(one));
  const options = (engine as Meta).engine_kwargs;
  const [instance] = (cluster as Cluster).nodes?.[0]?.instances ?? [];
  if (!options?.model || !instance?.hardware)
    throw new InputError(`${folder}: meta.json has no engine_kwargs.model, or config.json no instance with hardware`);
  return {
    trace,
    model: options.model,
    gpu: instance.hardware,
    memoryShare: instance.npu_mem?.mem_util ?? 0.9,
    maxSequences: options.max_num_seqs,
    maxTokens: options.max_num_batched_tokens,
    times: {
      ttftMs: ms((one) => one.first_token_ts - one.queued_ts),
      tpotMs: ms((one) => (one.last_token_ts - one.first_token_ts) / (one.output_toks - 1)),
      latencyMs: ms((one) => one.last_token_ts - one.queued_ts),
    },
  };
}

interface Meta {
  readonly engine_kwargs?: { readonly model: string; max_num_seqs: number; max_num_batched_tokens: number };
}

interface Cluster {
  readonly nodes?: readonly { readonly instances?: readonly Instance[] }[];
}

interface Instance {
  readonly hardware: string;
  readonly npu_mem?: { readonly mem_util?: number };
}

const requestFields = ["input_toks", "output_toks", "queued_ts", "first_token_ts", "last_token_ts"] as const;
type LoggedRequest = Readonly<Record<(typeof requestFields)[number], number>> & { readonly request_id: string };

function requestOf(line: string, where: string): LoggedRequest {
  const request = parsed(line, where) as Partial<LoggedRequest>;
  for (const name of requestFields)
    if (typeof request?.[name] !== "number")
      throw new InputError(`${where}: ${name} is ${JSON.stringify(request?.[name])}, expected a number`);
  const { queued_ts, first_token_ts, last_token_ts } = request as LoggedRequest;
  if (first_token_ts <= queued_ts || last_token_ts < first_token_ts)
    throw new InputError(`${where}: a token precedes queued_ts, or the last token precedes the first`);
  return request as LoggedRequest;
}

const numberOf = (id: string) => Number(id.split("-")[1]);

async function textOf(path: string): Promise<string> {
  return await readFile(path, "utf8").catch((error) => {
    throw new InputError(`${path}: ${whyUnreadable(error)}`);
  });
}

const jsonOf = async (path: string) => parsed(await textOf(path), path);

function parsed(text: string, where: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InputError(`${where}: is not JSON (${(error as Error).message})`);
  }
}

const blockTokens = 16;

/** The roofline cost model of the run's model and hardware. */
export function rooflineOf({ model, gpu }: RecordedRun, efficiency: Partial<Efficiency> = {}): CostModel {
  return new Roofline({ shape: modelNamed(model), hardware: hardwareNamed(gpu), blockTokens, efficiency });
}

/** The requests of a recorded run, simulated with the preset `vllm`. Times in ns. */
export interface SimulatedRequests {
  readonly steps: StepTable;
  /** Start of the first step after the arrival. */
  readonly queuedNs: Float64Array;
  readonly firstTokenNs: Float64Array;
  readonly finishedNs: Float64Array;
}

export function simulateRequests(run: RecordedRun, cost: CostModel): SimulatedRequests {
  const { trace, memoryShare, maxSequences, maxTokens } = run;
  const shape = modelNamed(run.model);
  const vllm = presetRegistry.get("vllm");
  const bytes = cacheBytes({ shape, hardware: hardwareNamed(run.gpu), memoryShare, stepTokens: maxTokens });
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
    observers: [steps],
  });
  const { arrivalNs, firstTokenNs, finishedNs } = arrivals.batches[0].outcomes;
  return { steps, queuedNs: nextStepStarts(arrivalNs, steps.startNs), firstTokenNs, finishedNs };
}

/** The times of simulated requests, defined as those of a recorded run. */
export function timesOf({ trace }: RecordedRun, simulated: SimulatedRequests): RequestTimes {
  const { queuedNs, firstTokenNs, finishedNs } = simulated;
  const ms = (of: (row: number) => number) => Float64Array.from(queuedNs, (_, row) => of(row) / 1e6);
  return {
    ttftMs: ms((row) => firstTokenNs[row] - queuedNs[row]),
    tpotMs: ms((row) => (finishedNs[row] - firstTokenNs[row]) / (trace.outputTokens[row] - 1)),
    latencyMs: ms((row) => finishedNs[row] - queuedNs[row]),
  };
}

/** The start of the next step after each arrival. Both arrays are in ascending order. */
function nextStepStarts(arrivalNs: Float64Array, startNs: readonly number[]): Float64Array {
  let step = 0;
  return arrivalNs.map((at) => {
    while (startNs[step] < at) step++;
    return startNs[step];
  });
}
