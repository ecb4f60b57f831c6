import { InputError } from "../../core/errors.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { spreadArrivals } from "../../traces/spread.ts";
import type { SimulationOptions } from "./simulation-options.ts";

/** Applies `spread`, which distributes equal arrival times, and `maxOutput`, which raises `maxOutputTokens`. */
export function withLoad(trace: Trace, { spread = "none", maxOutput = 0 }: SimulationOptions): Trace {
  const sent = spread === "none" ? trace : spreadArrivals(trace);
  if (maxOutput === 0) return sent;
  return { ...sent, maxOutputTokens: sent.maxOutputTokens.map((tokens) => Math.max(tokens, maxOutput)) };
}

/** @throws InputError if no request of a closed loop waits for another one. */
export function checkTurns({ optional: { parent, session } }: Trace): void {
  const seen = new Set<number>();
  const hasTurns = parent?.some((row) => row >= 0) || session?.some((id) => id > 0 && (seen.has(id) || !seen.add(id)));
  if (!hasTurns) throw new InputError("--loop closed needs sessions of several turns, which this trace does not have");
}

/** Times are whole ns below this number, so that doubles are exact. */
const longestNs = 2 ** 53;

/** The speed-up over the recorded arrivals. @throws InputError if arrival times would exceed 2^53 ns. */
export function speedFrom({ rate, speed = 1 }: SimulationOptions, trace: Trace): number {
  const value = rate === undefined ? speed : speedFor(rate, trace);
  const { arrivalNs, requestCount } = trace;
  const lastNs = arrivalNs[requestCount - 1];
  if (value > 0 && Number.isFinite(value) && !(lastNs / value > longestNs)) return value;
  throw new InputError(
    `${rate === undefined ? `--speed is ${speed}` : `--rate is ${rate}`}, which is ${
      Number.isFinite(value) ? "so slow that the trace would last longer than 104 days (2^53 ns)" : "too fast"
    }`,
  );
}

/** The speed-up at which `rate` requests arrive per second. @throws InputError for a trace without duration. */
function speedFor(rate: number, { arrivalNs, requestCount }: Trace): number {
  const durationS = (arrivalNs[requestCount - 1] - arrivalNs[0]) / 1e9;
  if (durationS > 0) return (rate * durationS) / (requestCount - 1);
  throw new InputError("--rate needs arrival times that differ; all requests of this trace arrive at once");
}
