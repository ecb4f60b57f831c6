import { isDeepStrictEqual } from "node:util";
import { rowOf, type Trace, TraceBuilder, type TraceRow } from "../../core/trace/trace.ts";
import type { Operation } from "../run/operations-file.ts";
import type { FuzzCase } from "./kinds.ts";
import type { Setup } from "./setup.ts";

const defaultSetup: Omit<Setup, "schedulerOptions" | "rules" | "blockTokens" | "blocks"> = {
  ...{ index: "hash-table", eviction: "lru", allocator: "block", scheduler: "fcfs-chunked" },
  ...{ hostBlocks: 0, seed: 1, loop: "open", clock: 0, answers: "trace" },
};
const defaultRow = {
  ...{ thinkNs: 0, priority: 0, retentionNs: 0, session: 0, parent: -1, namespace: 0, markedTokens: 0 },
  ...{ tool: 0, nextUseNs: 0, nextUseSteps: 0, keepNs: 0, sessionEnd: 0 },
};

/**
 * Smaller cases than this one: without some requests, an operation, a rule or an option, with a shorter prompt or output, or with
 * a default value. Shrinking the random values cannot reach these cases, because a request's values also determine later
 * requests.
 */
export function* smaller(one: FuzzCase): Generator<FuzzCase> {
  const { trace, setup, operations } = one;
  const rows = Array.from({ length: trace.requestCount }, (_, r) => rowOf(trace, r));
  const of = (changed: readonly TraceRow[]) => ({ ...one, trace: traceOf(trace, changed) });
  // Large reductions first.
  for (let kept = 1; kept < rows.length; kept *= 2)
    yield {
      ...of(rows.slice(0, kept)),
      operations: operations.filter((one) => Math.max(one.before, one.like ?? 0) < kept),
    };
  for (const change of [withDefaults, (row: TraceRow) => withoutBeginning(row, trace.unitTokens)]) {
    const changed = rows.map(change);
    if (!isDeepStrictEqual(changed, rows)) yield of(changed);
  }
  if (rows.length > 1)
    for (let r = 0; r < rows.length; r++)
      yield { ...of(withoutRow(rows, r)), operations: withoutRequest(operations, r, rows.length - 2) };
  for (let i = 0; i < operations.length; i++) yield { ...one, operations: operations.toSpliced(i, 1) };
  for (const [r, row] of rows.entries()) {
    for (const shorter of shorterRows(row, trace.unitTokens)) yield of(rows.with(r, shorter));
  }
  for (const name of ["rules", "schedulerOptions"] as const)
    for (const key of Object.keys(setup[name])) {
      const { [key as never]: _, ...rest } = setup[name];
      yield { ...one, setup: { ...setup, [name]: rest } };
    }
  for (const name of Object.keys(defaultSetup) as (keyof typeof defaultSetup)[])
    if (setup[name] !== defaultSetup[name]) yield { ...one, setup: { ...setup, [name]: defaultSetup[name] } };
  if (setup.blockTokens > trace.unitTokens) yield { ...one, setup: { ...setup, blockTokens: trace.unitTokens } };
  if (setup.blocks > 1) yield { ...one, setup: { ...setup, blocks: setup.blocks - 1 } };
}

/** Turns that waited for the removed request wait for its parent instead. */
function withoutRow(rows: readonly TraceRow[], removed: number): TraceRow[] {
  return rows.toSpliced(removed, 1).map((row) => {
    const { parent = -1 } = row;
    if (parent < removed) return row;
    return { ...row, parent: parent === removed ? rows[removed].parent! : parent - 1 };
  });
}

/** Operations before the removed request move to the next one; operations that name it are removed. */
function withoutRequest(operations: readonly Operation[], removed: number, last: number): Operation[] {
  return operations.flatMap(({ before, like, ...operation }) => {
    if (like === removed) return [];
    const behind = before > removed ? before - 1 : before;
    if (behind > last) return [];
    return { ...operation, before: behind, ...(like !== undefined && { like: like > removed ? like - 1 : like }) };
  });
}

function* shorterRows(row: TraceRow, unitTokens: number): Generator<TraceRow> {
  const { inputTokens, outputTokens, keys } = row;
  for (const name of Object.keys(defaultRow) as (keyof typeof defaultRow)[])
    if (row[name] !== undefined && row[name] !== defaultRow[name]) yield { ...row, [name]: defaultRow[name] };
  if (outputTokens > 1) yield withOutputOf(row, 1);
  // In whole units, because a partial unit has different content.
  for (const units of new Set([inputTokens / 2, inputTokens - 1].map((tokens) => Math.floor(tokens / unitTokens)))) {
    if (units === 0) continue;
    const tokens = units * unitTokens;
    const marked = row.markedTokens === undefined ? {} : { markedTokens: Math.min(row.markedTokens, tokens) };
    yield { ...row, ...marked, inputTokens: tokens, keys: Array.from(keys).slice(0, units) };
  }
  if (outputTokens > 0) yield withOutputOf(row, outputTokens - 1);
}

function withOutputOf(row: TraceRow, outputTokens: number): TraceRow {
  const { generatedKeys } = row;
  const keys = generatedKeys && { generatedKeys: Array.from(generatedKeys).slice(0, outputTokens) };
  return { ...row, ...keys, outputTokens, maxOutputTokens: outputTokens };
}

/** Without the first unit of the prompt; prompts that share a prefix still do. */
function withoutBeginning(row: TraceRow, unitTokens: number): TraceRow {
  if (row.keys.length < 2) return row;
  const { markedTokens } = row;
  const marked = markedTokens === undefined ? {} : { markedTokens: Math.max(0, markedTokens - unitTokens) };
  return { ...row, ...marked, inputTokens: row.inputTokens - unitTokens, keys: Array.from(row.keys).slice(1) };
}

/** With the default values of all optional columns. */
function withDefaults(row: TraceRow): TraceRow {
  const names = (Object.keys(defaultRow) as (keyof typeof defaultRow)[]).filter((name) => row[name] !== undefined);
  return { ...row, ...Object.fromEntries(names.map((name) => [name, defaultRow[name]])) };
}

/** The rows as a trace reader returns them: content ids, sessions and tools are numbered by first occurrence. */
function traceOf({ unitTokens }: Trace, rows: readonly TraceRow[]): Trace {
  const builder = new TraceBuilder(unitTokens);
  const ids = new Map<number, number>();
  const sessions = new Map<number, number>();
  const tools = new Map<number, number>();
  const numbered = (numbers: Map<number, number>, id: number, first: number) => {
    if (!numbers.has(id)) numbers.set(id, numbers.size + first);
    return numbers.get(id)!;
  };
  for (const { session = 0, tool = 0, ...row } of rows) {
    const keys = unitTokens === 1 ? row.keys : Array.from(row.keys, (id) => numbered(ids, id, 0));
    builder.add({
      ...row,
      keys,
      ...(session > 0 && { session: numbered(sessions, session, 1) }),
      ...(tool > 0 && { tool: numbered(tools, tool, 1) }),
    });
  }
  return builder.take();
}
