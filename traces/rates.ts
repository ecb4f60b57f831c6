import { grouped } from "../core/counted.ts";
import type { Trace } from "../core/trace/trace.ts";
import { shownPath } from "./bytes.ts";
import type { Notes } from "./format.ts";

/** Fewer requests say too little about a rate. */
const leastRequests = 20;
/** Mean rates of recorded services are between these; others suggest a wrong unit of time. */
const plausible = { leastPerS: 0.002, mostPerS: 1000, mostTokensPerS: 1e7 };

/** The option of a format that may correct an implausible rate; undefined if there is none. */
export type RateOption = "timeUnit" | "sessionSpread" | undefined;

/**
 * Adds a note at the end, also if only the first batches are read, if the mean rate of requests suggests that the times have
 * another unit. The note names `option`.
 */
export async function* withRateNotes(
  batches: AsyncIterable<Trace>,
  files: readonly string[],
  notes: Notes,
  option: RateOption,
): AsyncGenerator<Trace> {
  let first: number | undefined;
  let last = 0;
  let requests = 0;
  let tokens = 0;
  try {
    for await (const batch of batches) {
      first ??= batch.arrivalNs[0];
      last = batch.arrivalNs[batch.requestCount - 1];
      requests += batch.requestCount;
      for (let r = 0; r < batch.requestCount; r++) tokens += batch.inputTokens[r];
      yield batch;
    }
  } finally {
    const text = implausibleRate(requests, tokens, (last - (first ?? 0)) / 1e9, option);
    if (text !== undefined) notes.add(`${files.map(shownPath).join(", ")}: ${text}`);
  }
}

function implausibleRate(requests: number, tokens: number, seconds: number, option: RateOption): string | undefined {
  if (requests < leastRequests || seconds === 0) return undefined;
  const rate = requests / seconds;
  const isHigh = rate > plausible.mostPerS || tokens / seconds > plausible.mostTokensPerS;
  if (!isHigh && rate >= plausible.leastPerS) return undefined;
  const shown = (value: number) => (value >= 1000 ? grouped(value) : value.toPrecision(3));
  const found = `${shown(rate)} requests a second over ${shown(seconds)} s is implausibly ${isHigh ? "high" : "low"}`;
  if (isHigh && option === "sessionSpread") return `${found}, because all sessions start at 0`;
  const unit = `the times may be in a ${isHigh ? "larger" : "smaller"} unit`;
  return `${found}: ${unit}${option === "timeUnit" ? "; --time-unit states it" : ""}`;
}
