import fc from "fast-check";
import { expect, test } from "vitest";
import {
  readTrace,
  rowOf,
  type Trace,
  TraceBuilder,
  type TraceRow,
  type TraceSource,
} from "../../../core/trace/trace.ts";

const row = fc.record(
  {
    arrivalNs: fc.nat(),
    inputTokens: fc.nat(1000),
    outputTokens: fc.nat(1000),
    maxOutputTokens: fc.nat(1000),
    keys: fc.array(fc.nat(50), { maxLength: 8 }),
    namespace: fc.nat(5),
    session: fc.nat(5),
    parent: fc.integer({ min: -1, max: 20 }),
    thinkNs: fc.nat(),
    priority: fc.integer({ min: -3, max: 3 }),
    retentionNs: fc.nat(),
    category: fc.nat(3),
    markedTokens: fc.nat(100),
  },
  { requiredKeys: ["arrivalNs", "inputTokens", "outputTokens", "keys"] },
);

/** The expected row of a trace in which the optional columns `named` exist. */
function kept({ keys, ...row }: TraceRow, named: ReadonlySet<string>): Record<string, unknown> {
  const absent = {
    namespace: 0,
    session: 0,
    parent: -1,
    thinkNs: 0,
    priority: 0,
    retentionNs: 0,
    category: 0,
    markedTokens: 0,
  };
  const shown: Record<string, unknown> = { maxOutputTokens: row.outputTokens, ...row, keys: [...Array.from(keys)] };
  for (const [name, value] of Object.entries(absent)) if (named.has(name)) shown[name] ??= value;
  return shown;
}

const rowsOf = (trace: Trace) =>
  Array.from({ length: trace.requestCount }, (_, r) => {
    const { keys, ...row } = rowOf(trace, r);
    return { ...row, keys: Array.from(keys) };
  });

/** A source that yields these rows in batches of this size. */
function sourceOf(rows: readonly TraceRow[], batchOf: number): TraceSource {
  return {
    format: "test",
    files: [],
    content: "tokens",
    async *batches() {
      const builder = new TraceBuilder(16);
      for (const row of rows) {
        builder.add(row);
        if (builder.requestCount === batchOf) yield builder.take();
      }
      if (builder.requestCount > 0) yield builder.take();
    },
  };
}

test("a trace returns the rows that were added", () => {
  fc.assert(
    fc.property(fc.array(row, { maxLength: 12 }), (rows) => {
      const builder = new TraceBuilder(16);
      for (const one of rows) builder.add(one as TraceRow);
      const named = new Set(rows.flatMap((one) => Object.keys(one)));
      const trace = builder.take();
      expect(rowsOf(trace)).toEqual(rows.map((one) => kept(one as TraceRow, named)));
      expect(trace.distinctKeys).toBe(Math.max(0, ...rows.flatMap(({ keys }) => keys.map((key) => key + 1))));
      expect(builder.requestCount).toBe(0);
    }),
  );
});

test("a source in batches reads as the same trace, whole or limited to its first requests", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(row, { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 1, max: 13 }),
      fc.integer({ min: 1, max: 14 }),
      async (rows, batchOf, limit) => {
        const plain = rows.map(({ arrivalNs, inputTokens, outputTokens, keys }) => ({
          arrivalNs,
          inputTokens,
          outputTokens,
          keys,
        }));
        const whole = await readTrace(sourceOf(plain, 100));
        const cut = await readTrace(sourceOf(plain, batchOf), limit);
        expect(rowsOf(cut)).toEqual(rowsOf(whole).slice(0, limit));
        expect(await readTrace(sourceOf(plain, batchOf))).toEqual(whole);
      },
    ),
  );
});

test("columns grow for more rows and keys than their initial length", () => {
  const builder = new TraceBuilder(1);
  const n = 3000;
  for (let r = 0; r < n; r++)
    builder.add({
      arrivalNs: r,
      inputTokens: r,
      outputTokens: 1,
      keys: Array(10).fill(r),
      generatedKeys: [r],
      session: r,
    });
  const trace = builder.take();
  expect(trace.requestCount).toBe(n);
  expect(rowOf(trace, n - 1)).toMatchObject({ arrivalNs: n - 1, session: n - 1 });
  expect([...(rowOf(trace, 2047).keys as Uint32Array)]).toEqual(Array(10).fill(2047));
  expect([...(rowOf(trace, 1500).generatedKeys as Uint32Array)]).toEqual([1500]);
});

test("a source without requests is refused", async () => {
  await expect(readTrace(sourceOf([], 1))).rejects.toThrow("test: no requests");
});
