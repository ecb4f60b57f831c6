import { grouped } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { readTrace, rowOf, type Trace, TraceBuilder } from "../core/trace/trace.ts";
import type { Notes } from "./format.ts";

const unnumbered = 0xffff_ffff;

/**
 * The same requests sorted by arrival, those of one time in their order. All are in memory. Parents are the rows after
 * sorting, and content ids are numbered by first appearance again. A parent that arrives after its turn is left out.
 */
export async function* sortedByArrival(batches: AsyncIterable<Trace>, notes: Notes): AsyncGenerator<Trace> {
  const trace = await readTrace({ files: [], format: "", batches: () => batches });
  const { arrivalNs, requestCount, unitTokens } = trace;
  const order = Uint32Array.from({ length: requestCount }, (_, r) => r);
  order.sort((a, b) => arrivalNs[a] - arrivalNs[b] || a - b);
  const rowAfter = new Uint32Array(requestCount);
  for (let r = 0; r < requestCount; r++) rowAfter[order[r]] = r;
  // Times that are relative to the first request in the file become relative to the earliest one.
  const start = Math.min(0, arrivalNs[order[0]]);
  const numbers = new Uint32Array(unitTokens > 1 ? trace.distinctKeys : 0).fill(unnumbered);
  let numbered = 0;
  if (requestCount > 0 && arrivalNs[order[requestCount - 1]] - start > Number.MAX_SAFE_INTEGER)
    throw new InputError("the requests to sort span more than 2^53 ns, expected times of one unit and origin");
  const moved = outOfOrder(arrivalNs);
  if (moved > 0) notes.add(`requests out of order are sorted by time: ${grouped(moved)} of ${grouped(requestCount)}`);
  const isLost = (row: number) => parentOf(trace, row) >= 0 && rowAfter[parentOf(trace, row)] > rowAfter[row];
  const lostParents = order.reduce((count, row) => count + (isLost(row) ? 1 : 0), 0);
  if (lostParents > 0) notes.add(`parents that arrive after their next turn are left out: ${grouped(lostParents)}`);
  const builder = new TraceBuilder(unitTokens, 0, trace);
  for (let r = 0; r < requestCount; r++) {
    const row = rowOf(trace, order[r]);
    row.arrivalNs -= start;
    if (row.parent !== undefined && row.parent >= 0) {
      row.parent = rowAfter[row.parent];
      if (row.parent > r) row.parent = -1;
    }
    if (unitTokens > 1)
      row.keys = Uint32Array.from(row.keys, (key) => {
        if (numbers[key] === unnumbered) numbers[key] = numbered++;
        return numbers[key];
      });
    builder.add(row);
    if (builder.isFull) yield builder.take();
  }
  if (builder.requestCount > 0) yield builder.take();
}

/** Row of the request's parent; −1 if it has none. */
const parentOf = (trace: Trace, row: number): number => trace.optional.parent?.[row] ?? -1;

/** Number of requests that are earlier than one before them. */
function outOfOrder(arrivalNs: Float64Array): number {
  let latest = Number.NEGATIVE_INFINITY;
  let count = 0;
  for (const time of arrivalNs) {
    if (time < latest) count++;
    else latest = time;
  }
  return count;
}
