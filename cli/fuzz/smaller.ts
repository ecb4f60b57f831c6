import { rowOf, type Trace, TraceBuilder, type TraceRow } from "../../core/trace.ts";
import type { FuzzCase } from "./kinds.ts";

/**
 * Cases that say less than this one: without a request, with a shorter prompt or answer, without a rule or an option. What
 * they are drawn from is out of reach of these, as other requests depend on it there.
 */
export function* smaller({ trace, setup }: FuzzCase): Generator<FuzzCase> {
  const rows = Array.from({ length: trace.requestCount }, (_, r) => rowOf(trace, r));
  const of = (changed: readonly TraceRow[]) => ({ setup, trace: traceOf(trace, changed) });
  if (rows.length > 1) for (let r = 0; r < rows.length; r++) yield of(rows.toSpliced(r, 1));
  for (const [r, row] of rows.entries()) {
    for (const shorter of shorterRows(row, trace.unitTokens)) yield of(rows.with(r, shorter));
  }
  for (const name of ["rules", "schedulerOptions"] as const)
    for (const key of Object.keys(setup[name])) {
      const { [key as never]: _, ...rest } = setup[name];
      yield { trace, setup: { ...setup, [name]: rest } };
    }
}

function* shorterRows(row: TraceRow, unitTokens: number): Generator<TraceRow> {
  const { inputTokens, outputTokens, keys, generatedKeys } = row;
  for (const tokens of new Set([Math.floor(inputTokens / 2), inputTokens - 1])) {
    if (tokens === 0) continue;
    const units = Math.ceil(tokens / unitTokens);
    const marked = row.markedTokens === undefined ? {} : { markedTokens: Math.min(row.markedTokens, tokens) };
    yield { ...row, ...marked, inputTokens: tokens, keys: Array.from(keys).slice(0, units) };
  }
  if (outputTokens === 0) return;
  const written = generatedKeys && { generatedKeys: Array.from(generatedKeys).slice(0, outputTokens - 1) };
  yield { ...row, ...written, outputTokens: outputTokens - 1, maxOutputTokens: outputTokens - 1 };
}

/** The rows as a reader would have them: contents are numbered by their first appearance, time begins with the first. */
function traceOf({ unitTokens }: Trace, rows: readonly TraceRow[]): Trace {
  const builder = new TraceBuilder(unitTokens);
  const ids = new Map<number, number>();
  const sessions = new Map<number, number>();
  const numbered = (known: Map<number, number>, id: number, first: number) => {
    if (!known.has(id)) known.set(id, known.size + first);
    return known.get(id)!;
  };
  for (const { session = 0, ...row } of rows) {
    const keys = unitTokens === 1 ? row.keys : Array.from(row.keys, (id) => numbered(ids, id, 0));
    builder.add({ ...row, keys, ...(session > 0 && { session: numbered(sessions, session, 1) }) });
  }
  return builder.take();
}
