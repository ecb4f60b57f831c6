import { assert, InputError } from "../../core/errors.ts";
import { Turns } from "../../core/serving/turns.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { spreadArrivals } from "../../traces/spread.ts";
import type { TraceTotals } from "../trace-stream.ts";
import type { Simulated } from "./simulated.ts";
import type { SimulationOptions } from "./simulation-options.ts";

/** Applies `spread`, which distributes equal arrival times, and `maxOutput`, which raises `maxOutputTokens`. */
export function withLoad(trace: Trace, { spread = "none", maxOutput = 0 }: SimulationOptions): Trace {
  const sent = spread === "none" ? trace : spreadArrivals(trace);
  if (maxOutput === 0) return sent;
  return { ...sent, maxOutputTokens: sent.maxOutputTokens.map((tokens) => Math.max(tokens, maxOutput)) };
}

/** The turns of a trace in memory. @throws InputError if they are invalid */
export function turnsOf(trace: Trace): Turns {
  const turns = new Turns();
  turns.add(trace);
  return turns;
}

/** @throws InputError if no request of a closed loop waits for another one. */
export function checkTurns({ hasAny }: Turns): void {
  if (!hasAny) throw new InputError("--loop closed needs sessions of several turns, which this trace does not have");
}

/** @throws InputError if another option sets when requests arrive */
export function checkConcurrency(options: SimulationOptions): void {
  if (options.concurrency === undefined) return;
  const other = (["loop", "speed", "rate", "spread", "pace"] as const).find((name) => options[name] !== undefined);
  if (other !== undefined)
    throw new InputError(`--concurrency and --${other} exclude each other: both set when requests arrive`);
}

/** The loop of a run in a report: with a concurrency the end of a request causes an arrival, as in a closed loop. */
export const loopReport = ({ loop, concurrency }: Pick<Simulated, "loop" | "concurrency">) => ({
  loop: concurrency === undefined ? loop : ("closed" as const),
  ...(concurrency !== undefined && { concurrency }),
});

/** Times are whole ns below this number, so that doubles are exact. */
const longestNs = 2 ** 53;

/** The number of requests of a trace, and the times of the first and the last one. */
export type Arrivals = Pick<TraceTotals, "requests" | "firstNs" | "lastNs">;

export const arrivalsOf = ({ arrivalNs, requestCount }: Trace): Arrivals => ({
  requests: requestCount,
  firstNs: arrivalNs[0],
  lastNs: arrivalNs[requestCount - 1],
});

/** Whether the load depends on the last arrival of the trace: a rate, or a speed at which times could exceed 2^53 ns. */
export const readsArrivals = ({ rate, speed = 1 }: SimulationOptions): boolean => rate !== undefined || speed < 1;

/**
 * The speed-up over the recorded arrivals; `arrivals` may be omitted if `readsArrivals` is false.
 *
 * @throws InputError if arrival times would exceed 2^53 ns
 */
export function speedFrom({ rate, speed = 1 }: SimulationOptions, arrivals?: Arrivals): number {
  const value = rate === undefined ? speed : speedFor(rate, arrivals);
  if (value > 0 && Number.isFinite(value) && !((arrivals?.lastNs ?? 0) / value > longestNs)) return value;
  throw new InputError(
    `${rate === undefined ? `--speed is ${speed}` : `--rate is ${rate}`}, which is ${
      Number.isFinite(value) ? "so slow that the trace would last longer than 104 days (2^53 ns)" : "too fast"
    }`,
  );
}

/** The speed-up at which `rate` requests arrive per second. @throws InputError for a trace without duration. */
function speedFor(rate: number, arrivals: Arrivals | undefined): number {
  assert(arrivals !== undefined, "a rate without the arrivals of the trace");
  const { requests, firstNs, lastNs } = arrivals;
  const durationS = (lastNs - firstNs) / 1e9;
  if (durationS > 0) return (rate * durationS) / (requests - 1);
  throw new InputError("--rate needs arrival times that differ; all requests of this trace arrive at once");
}

/** @throws InputError if no request would be left to report */
export function checkWarmup(warmup: number, requests: number): void {
  if (warmup >= requests) throw new InputError(`--warmup is ${warmup}, the trace has only ${requests} requests`);
}
