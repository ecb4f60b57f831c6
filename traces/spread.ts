import type { Trace } from "../core/trace/trace.ts";

/**
 * The same trace with requests of equal arrival times spread evenly up to the next time, for traces with times in seconds.
 */
export function spreadArrivals(trace: Trace): Trace {
  const { arrivalNs: recorded, requestCount } = trace;
  const arrivalNs = recorded.slice();
  for (let from = 0; from < requestCount; ) {
    let to = from + 1;
    while (to < requestCount && recorded[to] === recorded[from]) to++;
    // The last group has no next time; it gets the interval of the group before.
    const lengthNs =
      to < requestCount ? recorded[to] - recorded[from] : from > 0 ? recorded[from] - recorded[from - 1] : 0;
    for (let i = from; i < to; i++) arrivalNs[i] = recorded[from] + Math.floor((lengthNs * (i - from)) / (to - from));
    from = to;
  }
  return { ...trace, arrivalNs };
}
