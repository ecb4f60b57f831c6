import { expect, test } from "vitest";
import { rowOf, TraceBuilder, type TraceRow } from "../../core/trace/trace.ts";
import { shortened } from "../../traces/shorten.ts";

function traceOf(unitTokens: number, rows: readonly Partial<TraceRow>[]) {
  const builder = new TraceBuilder(unitTokens);
  for (const row of rows) builder.add({ arrivalNs: 0, inputTokens: 1, outputTokens: 1, keys: [0], ...row });
  return builder.take();
}

test("lengths are divided and rounded up; contents and arrivals do not change", () => {
  const trace = traceOf(512, [
    { inputTokens: 1100, outputTokens: 129, keys: [7, 8, 9], markedTokens: 512 },
    { arrivalNs: 5, inputTokens: 512, outputTokens: 1, maxOutputTokens: 300, keys: [7] },
  ]);
  const short = shortened(trace, 128);
  expect(short.unitTokens).toBe(4);
  expect(rowOf(short, 0)).toMatchObject({ inputTokens: 9, outputTokens: 2, maxOutputTokens: 2, markedTokens: 4 });
  expect(Array.from(rowOf(short, 0).keys)).toEqual([7, 8, 9]);
  expect(rowOf(short, 1)).toMatchObject({ arrivalNs: 5, inputTokens: 4, outputTokens: 1, maxOutputTokens: 3 });
  // As many contents as before, however short the last one is.
  for (let row = 0; row < 2; row++)
    expect(Math.ceil(short.inputTokens[row] / short.unitTokens)).toBe(rowOf(short, row).keys.length);
});

test("a trace whose keys are tokens cannot be shortened", () => {
  const trace = traceOf(16, [{}]);
  expect(shortened(trace, 1)).toBe(trace);
  for (const by of [3, 16, 32])
    expect(() => shortened(trace, by)).toThrow(
      `cannot be divided by ${by}: expected a divisor of the unit of 16 tokens`,
    );
  expect(() => shortened(traceOf(1, [{}]), 2)).toThrow("the trace has token ids");
});
