import type { Trace } from "../core/trace/trace.ts";
import { shownPath } from "./bytes.ts";
import type { Notes } from "./format.ts";

/** Fewer requests say too little about a rate. */
const leastRequests = 100;
/** Mean rates of recorded services are between these; others suggest a wrong unit of time. */
const plausible = { leastPerS: 0.002, mostPerS: 1000, mostTokensPerS: 1e7 };

/** Adds a note after the last batch if the mean rate of requests suggests that the times have another unit. */
export async function* withRateNotes(
  batches: AsyncIterable<Trace>,
  files: readonly string[],
  notes: Notes,
): AsyncGenerator<Trace> {
  let first: number | undefined;
  let last = 0;
  let requests = 0;
  let tokens = 0;
  for await (const batch of batches) {
    first ??= batch.arrivalNs[0];
    last = batch.arrivalNs[batch.requestCount - 1];
    requests += batch.requestCount;
    for (let r = 0; r < batch.requestCount; r++) tokens += batch.inputTokens[r];
    yield batch;
  }
  const seconds = (last - (first ?? 0)) / 1e9;
  if (requests < leastRequests || seconds === 0) return;
  const rate = requests / seconds;
  const isHigh = rate > plausible.mostPerS || tokens / seconds > plausible.mostTokensPerS;
  if (!isHigh && rate >= plausible.leastPerS) return;
  notes.add(
    `${files.map(shownPath).join(", ")}: ${rate.toPrecision(3)} requests a second over ${seconds.toPrecision(3)} s is ` +
      `implausibly ${isHigh ? "high" : "low"}: the times may be in ${isHigh ? "a larger" : "a smaller"} unit; --time-unit states it`,
  );
}
