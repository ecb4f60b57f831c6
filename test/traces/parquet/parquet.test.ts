import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { parquetMetadata } from "hyparquet";
import { parquetWriteFile } from "hyparquet-writer";
import { expect, test } from "vitest";
import { readTrace, type Trace, TraceBuilder, type TraceContent } from "../../../core/trace/trace.ts";
import { openTrace } from "../../../traces/open.ts";
import { parquet } from "../../../traces/parquet/parquet.ts";
import { writeParquetTo } from "../../../traces/parquet/write.ts";
import { anyTrace, sourceOf } from "../any-trace.ts";
import { failureOf, folder, haveRecordings, recording } from "../files.ts";

const path = join(folder, "trace.parquet");

const contents = ["blocks", "tokens", "lengths"] as const satisfies TraceContent[];

test.each(contents)("any trace of %s is restored with the same columns", async (content) => {
  await fc.assert(
    fc.asyncProperty(anyTrace(content), async (trace) => {
      await writeParquetTo(path, sourceOf(trace, content));
      const source = await openTrace([path]);
      expect(source.content).toBe(content);
      expect(await readTrace(source)).toEqual(trace);
    }),
  );
});

test.runIf(haveRecordings)("a recorded trace has the totals of the original, and a name for each column", async () => {
  const original = await openTrace([recording("mooncake/conversation_trace.jsonl.gz")]);
  await writeParquetTo(path, original);
  const trace = await readTrace(await openTrace([path]));
  const sum = (column: Uint32Array) => column.reduce((a, b) => a + b, 0);
  expect([trace.requestCount, trace.keys.length, trace.distinctKeys]).toEqual([12_031, 288_500, 182_790]);
  expect([sum(trace.inputTokens), sum(trace.outputTokens)]).toEqual([144_793_823, 4_122_048]);
  const { schema, key_value_metadata } = parquetMetadata(readFileSync(path));
  expect(schema.filter(({ name }) => !["list", "element"].includes(name)).map(({ name }) => name)).toEqual([
    ...["trace", "arrival_ns", "input_tokens", "output_tokens", "max_output_tokens", "namespace", "session", "parent"],
    ...["think_ns", "priority", "retention_ns", "category", "marked_tokens"],
    ...["tool", "next_use_ns", "next_use_steps", "keep_ns", "session_end", "keys", "generated_keys"],
  ]);
  expect(key_value_metadata?.slice(0, 4)).toEqual([
    { key: "kvlab.schema", value: "trace/1" },
    { key: "kvlab.content", value: "blocks" },
    { key: "kvlab.source_format", value: "mooncake" },
    { key: "kvlab.unit_tokens", value: "512" },
  ]);
});

test("many requests are written and read in several row groups", async () => {
  const builder = new TraceBuilder(2);
  const keys = (r: number) => [0, 1, 2 + (r >> 1)];
  for (let r = 0; r < 70_000; r++)
    builder.add({ arrivalNs: r, inputTokens: 5, outputTokens: r, keys: keys(r), priority: r - 1 });
  const trace = builder.take();
  await writeParquetTo(path, sourceOf(trace, "blocks", 50_000));
  const counts: number[] = [];
  for await (const batch of parquet.open([path], {}).batches()) counts.push(batch.requestCount);
  expect(counts).toEqual([65_536, 4_464]);
  expect(await readTrace(await openTrace([path]))).toEqual(trace);
});

test("several files are one trace, whose ids have one numbering", async () => {
  const builder = new TraceBuilder(2);
  builder.add({ arrivalNs: 1, inputTokens: 3, outputTokens: 1, keys: [0, 1] });
  builder.add({ arrivalNs: 2, inputTokens: 4, outputTokens: 1, keys: [0, 2], parent: 0 });
  await writeParquetTo(path, sourceOf(builder.take(), "blocks"));
  const later = join(folder, "later.parquet");
  builder.add({ arrivalNs: 2, inputTokens: 4, outputTokens: 1, keys: [0, 2], parent: 1 });
  builder.add({ arrivalNs: 3, inputTokens: 1, outputTokens: 1, keys: [3] });
  await writeParquetTo(later, sourceOf(builder.take(), "blocks"));
  const trace = await readTrace(await openTrace([path, later]));
  expect([...trace.keys]).toEqual([0, 1, 0, 2, 0, 2, 3]);
  expect(await failureOf(async () => readTrace(await openTrace([later, path])))).toBe(
    "later.parquet: row 0: parent is 1, expected the number of an earlier row, from 0, or -1",
  );
});

/** A small trace written by another program, with any values. */
function foreign(columns: Record<string, unknown[]>, types: Record<string, string> = {}): string {
  const file = join(folder, "foreign.parquet");
  const columnData = Object.entries(columns).map(([name, data]) => ({ name, data, type: types[name] }));
  parquetWriteFile({ filename: file, columnData: columnData as never });
  return file;
}

const read = async (file: string, unitTokens?: number) =>
  readTrace(await openTrace([file], unitTokens === undefined ? {} : { unitTokens }));

test("a file of another program is read with a unit, and its ids are numbered by first appearance", async () => {
  const { keys, ...lengths } = {
    arrival_ns: [5n, 5n, 9n],
    input_tokens: [32, 32, 17],
    output_tokens: [1.0, 2.0, 3.0],
    keys: [
      [2n ** 63n - 1n, 7n],
      [2n ** 63n - 1n, 8n],
      [4n, 5n],
    ],
  };
  const file = foreign(lengths);
  expect((await openTrace([file])).content).toBe("lengths");
  expect((await read(file)).lengthsOnly).toBe(true);
  const { requestCount, maxOutputTokens } = await read(file);
  expect([requestCount, ...maxOutputTokens]).toEqual([3, 1, 2, 3]);
  expect(keys).toHaveLength(3);
});

test("invalid values are one message with file and row", async () => {
  const valid = { arrival_ns: [0n, 1n], input_tokens: [3, 4], output_tokens: [1, 2] };
  const failure = (columns: Record<string, unknown[]>) => failureOf(() => read(foreign({ ...valid, ...columns })));
  expect(await failure({})).toMatch(/did not fail/);
  expect(await failure({ arrival_ns: [1n, 0n] })).toBe(
    "foreign.parquet: row 1: arrival_ns is 0, expected at least 1, that of the request before",
  );
  expect(await failure({ input_tokens: [3, 0] })).toBe(
    "foreign.parquet: row 1: input_tokens is 0, expected an integer from 1 to 2147483647",
  );
  expect(await failure({ input_tokens: [3, null] })).toBe(
    "foreign.parquet: row 1: input_tokens is null, expected an integer from 1 to 2147483647",
  );
  expect(await failure({ output_tokens: [1.5, 2] })).toBe(
    "foreign.parquet: row 0: output_tokens is 1.5, expected an integer from 0 to 2147483647",
  );
  expect(await failure({ max_output_tokens: [1, 1] })).toBe(
    "foreign.parquet: row 1: max_output_tokens is 1, expected at least output_tokens, 2",
  );
  expect(await failure({ marked_tokens: [4, 1] })).toBe(
    "foreign.parquet: row 0: marked_tokens is 4, expected at most input_tokens, 3",
  );
  expect(await failure({ parent: [-1, 1] })).toBe(
    "foreign.parquet: row 1: parent is 1, expected the number of an earlier row, from 0, or -1",
  );
  expect(await failure({ session: ["a", "b"] })).toMatch(/^foreign\.parquet: row group 0: column session/);
  expect(await failureOf(() => read(foreign({ a: [1], b: ["x"] })))).toBe(
    'foreign.parquet: Parquet without the columns arrival_ns, input_tokens, output_tokens of a trace; found a, b in the schema "root"',
  );
});

test("a column name with a line end is escaped, so that the message is one line", async () => {
  expect(await failureOf(() => read(foreign({ "a\nb": [1] })))).toBe(
    'foreign.parquet: Parquet without the columns arrival_ns, input_tokens, output_tokens of a trace; found "a\\nb" in the schema "root"',
  );
});

test("a file that is cut, not Parquet, or changed in any byte is refused", async () => {
  const builder = new TraceBuilder(1);
  for (let r = 0; r < 50; r++)
    builder.add({ arrivalNs: r * 1000, inputTokens: 3, outputTokens: 2, keys: [r, r, 1], generatedKeys: [5, r] });
  const trace = builder.take();
  await writeParquetTo(path, sourceOf(trace, "tokens"));
  const bytes = readFileSync(path);
  const damaged = join(folder, "damaged.parquet");
  const failure = async (content: Uint8Array) => {
    writeFileSync(damaged, content);
    return failureOf(async () => readTrace(parquet.open([damaged], {})));
  };
  expect(await failure(bytes)).toMatch(/did not fail/);
  for (let length = 0; length < bytes.length; length += 7)
    expect(await failure(bytes.subarray(0, length))).toMatch(/^damaged\.parquet: /);
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] ^= 1 << (at % 8);
    expect(`${at} ${await failure(changed)}`).toMatch(/^\d+ damaged\.parquet: /);
  }
  truncateSync(damaged, 0);
  expect(await failureOf(() => openTrace([damaged]))).toMatch(/empty/);
});

const equal = (a: Trace, b: Trace) => expect(a).toEqual(b);

test("the unit and the content of the files must agree", async () => {
  const blocks = new TraceBuilder(4);
  blocks.add({ arrivalNs: 0, inputTokens: 4, outputTokens: 1, keys: [0] });
  const trace = blocks.take();
  await writeParquetTo(path, sourceOf(trace, "blocks"));
  equal(await read(path, 4), trace);
  expect(await failureOf(() => read(path, 8))).toBe(
    "unit tokens is 8, expected 4, which the metadata of trace.parquet state",
  );
  const other = join(folder, "other.parquet");
  await writeParquetTo(other, sourceOf({ ...trace, unitTokens: 8 }, "blocks"));
  expect(await failureOf(() => openTrace([path, other]))).toBe(
    "other.parquet: blocks of 8 tokens, expected blocks of 4 as in trace.parquet",
  );
});
