import { join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { parsed, type RecordedEngine, readRecordedEngine, textOf } from "./recorded-engine.ts";

/** Times of the requests in trace order, in milliseconds since the first one was read. */
export interface RequestTimes {
  /** The engine reads the request from its input queue, which it does between steps. */
  readonly queuedMs: Float64Array;
  /** First and last output token. */
  readonly firstTokenMs: Float64Array;
  readonly finishedMs: Float64Array;
  readonly outputTokens: Uint32Array;
}

/** A run of vLLM: its trace, options and request times. */
export interface RecordedRun {
  readonly trace: Trace;
  /** The folder of the run. */
  readonly folder: string;
  readonly engine: RecordedEngine;
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
  const engine = await readRecordedEngine(folder);
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
  const start = requests.reduce((least, { queued_ts }) => Math.min(least, queued_ts), Number.POSITIVE_INFINITY);
  const ms = (of: (request: LoggedRequest) => number) => Float64Array.from(requests, (one) => 1e3 * of(one));
  return {
    trace: { ...trace, arrivalNs: sentNs(requests) ?? trace.arrivalNs },
    folder,
    engine,
    times: {
      queuedMs: ms((one) => one.queued_ts - start),
      firstTokenMs: ms((one) => one.first_token_ts - start),
      finishedMs: ms((one) => one.last_token_ts - start),
      outputTokens,
    },
  };
}

/** When the client sent the requests, since the first one, if it was recorded and they are in the order of the trace. */
function sentNs(requests: readonly LoggedRequest[]): Float64Array | undefined {
  const times = Float64Array.from(requests, ({ arrival_time: at = Number.NaN }) =>
    Math.round(1e9 * (at - (requests[0].arrival_time ?? Number.NaN))),
  );
  return times.every((ns, i) => ns >= (times[i - 1] ?? 0)) ? times : undefined;
}

const requestFields = ["input_toks", "output_toks", "queued_ts", "first_token_ts", "last_token_ts"] as const;
type LoggedRequest = Readonly<Record<(typeof requestFields)[number], number>> & {
  readonly request_id: string;
  readonly arrival_time?: number;
};

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
