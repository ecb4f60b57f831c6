import { describe, expect, test } from "vitest";
import { readTrace, rowOf, type Trace } from "../../core/trace/trace.ts";
import { mooncake } from "../../traces/mooncake.ts";
import { failureOf, fileOf, haveRecordings, recording } from "./files.ts";

const good = '{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [7, 9]}';

function read(lines: readonly string[] | string, unitTokens?: number): Promise<Trace> {
  return readTrace(mooncake.open([fileOf(lines, "t.jsonl")], unitTokens === undefined ? {} : { unitTokens }));
}

/** The valid line with some fields changed; undefined omits a field. */
function line(changed: Record<string, unknown>): string {
  return JSON.stringify({ ...JSON.parse(good), ...changed });
}

const keysOf = (trace: Trace) => Array.from({ length: trace.requestCount }, (_, r) => Array.from(rowOf(trace, r).keys));

test("requests become columns, and hash ids are numbered by first appearance", async () => {
  const trace = await read([
    good,
    '{"timestamp": 27, "input_length": 512, "output_length": 0, "hash_ids": [7]}',
    '{"timestamp": 27.5, "input_length": 1025, "output_length": 80, "hash_ids": [7, 3, 4]}',
  ]);
  expect(trace.unitTokens).toBe(512);
  expect([...trace.arrivalNs]).toEqual([0, 27e6, 27.5e6]);
  expect([...trace.inputTokens]).toEqual([1000, 512, 1025]);
  expect([...trace.outputTokens]).toEqual([5, 0, 80]);
  expect([...trace.maxOutputTokens]).toEqual([5, 0, 80]);
  expect(keysOf(trace)).toEqual([[0, 1], [0], [0, 2, 3]]);
  expect(trace.distinctKeys).toBe(4);
  expect(trace.optional).toEqual({});
});

test("known extra fields become columns and unknown ones are ignored", async () => {
  const trace = await read([
    line({ max_output_length: 64, session_id: "b", priority: -2, retention_ns: 5e9, model: { name: "x" } }),
    line({ session_id: 5, priority: 3 }),
    line({ session_id: "5" }),
    line({ session_id: "b" }),
    line({ session_id: null }),
  ]);
  expect([...trace.maxOutputTokens]).toEqual([64, 5, 5, 5, 5]);
  expect([...trace.optional.session!]).toEqual([1, 2, 3, 1, 0]);
  expect([...trace.optional.priority!]).toEqual([-2, 3, 0, 0, 0]);
  expect([...trace.optional.retentionNs!]).toEqual([5e9, 0, 0, 0, 0]);
});

test("64-bit ids that differ in the last digit stay different", async () => {
  const big = (last: number) => `1844674407370955161${last}`;
  const request = (ids: string) => good.replace("[7, 9]", `[${ids}]`);
  const trace = await read([request(`${big(4)}, 1`), request(`${big(5)}, 9007199254740993`), request(`${big(4)}, 1`)]);
  expect(keysOf(trace)).toEqual([
    [0, 1],
    [2, 3],
    [0, 1],
  ]);
});

test("a hundred thousand ids of all sizes are numbered exactly", async () => {
  // An odd factor maps 64-bit numbers one to one: small, counted and scattered ids, each seen twice.
  const factors = [1n, 2n ** 24n + 1n, 11400714819323198485n];
  const ids = Array.from({ length: 100_000 }, (_, i) => (BigInt(i) * factors[i % 3]) % 2n ** 64n);
  const distinct = new Map(ids.map((id) => [id, 0]));
  [...distinct.keys()].forEach((id, number) => {
    distinct.set(id, number);
  });
  const lines = [...ids, ...ids].map((id) => `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[${id}]}`);
  const trace = await read(lines);
  expect([...trace.keys]).toEqual([...ids, ...ids].map((id) => distinct.get(id)));
});

test("a source can be read again", async () => {
  const source = mooncake.open([fileOf([good, good])], {});
  expect(await readTrace(source)).toEqual(await readTrace(source));
});

test("batches share one numbering, and several files are one trace", async () => {
  const first = fileOf(Array.from({ length: 10_000 }, () => good));
  const second = fileOf([line({ timestamp: 4, hash_ids: [7, 8] })]);
  const batches: Trace[] = [];
  for await (const batch of mooncake.open([first, second], {}).batches()) batches.push(batch);
  expect(batches.map((batch) => batch.requestCount)).toEqual([8192, 1809]);
  expect(keysOf(batches[1]).at(-1)).toEqual([0, 2]);
  expect(batches.map((batch) => batch.distinctKeys)).toEqual([2, 3]);
});

test("Unix times are relative to the first request", async () => {
  const trace = await read([line({ timestamp: 1_760_587_752_017 }), line({ timestamp: 1_760_587_753_018.5 })]);
  expect([...trace.arrivalNs]).toEqual([0, 1001.5e6]);
});

describe("the unit", () => {
  const request = (tokens: number, ids: number) =>
    line({ input_length: tokens, hash_ids: Array.from({ length: ids }, (_, i) => i) });

  test("is 512 by default", async () => {
    expect((await read([request(1000, 2), request(5, 1)])).unitTokens).toBe(512);
  });
  test("is another power of two if the requests agree on it", async () => {
    expect((await read([request(100, 7), request(5, 1), request(16, 1)])).unitTokens).toBe(16);
    expect((await read([request(2000, 2), request(100, 1)])).unitTokens).toBe(1024);
  });
  test("is block_size if present", async () => {
    expect((await read([line({ input_length: 30, block_size: 24 })])).unitTokens).toBe(24);
    expect(await failureOf(() => read([line({ input_length: 30, block_size: 24 })], 16))).toBe(
      "t.jsonl:1: block_size is 24, expected 16",
    );
  });
  test("is `unitTokens` if given", async () => {
    expect((await read([request(30, 2)], 24)).unitTokens).toBe(24);
    expect(await failureOf(() => read([request(1000, 2)], 256))).toBe(
      "t.jsonl:1: hash_ids has 2 ids, expected 4: input_length is 1000, in blocks of 256",
    );
    expect(await failureOf(() => read([good], 1))).toBe("unit tokens is 1, expected an integer from 2 to 2147483647");
  });
  test("stays 512 if the requests agree on nothing, or only on requests of one block", async () => {
    expect(await failureOf(() => read([request(100, 7), request(1000, 2)]))).toBe(
      "t.jsonl:1: hash_ids has 7 ids, expected 1: input_length is 100, in blocks of 512",
    );
    expect(await failureOf(() => read([request(1000, 1)]))).toBe(
      "t.jsonl:1: hash_ids has 1 ids, expected 2: input_length is 1000, in blocks of 512",
    );
  });
});

const tokens = "an integer from 1 to 2147483647";
const outputLength = "an integer from 0 to 2147483647";
const sortHint = "kvlab trace convert --sort writes a sorted trace";
const blockId = "an integer from 0 to 18446744073709551615";
const whole = "an id identifies a block and all tokens before it";
test.each<[Record<string, unknown>, string]>([
  [{ timestamp: undefined }, "timestamp is missing, expected a number of milliseconds, 0 or more"],
  [{ input_length: undefined }, `input_length is missing, expected ${tokens}`],
  [{ output_length: undefined }, `output_length is missing, expected ${outputLength}`],
  [{ hash_ids: undefined }, `hash_ids is missing, expected an array of integers from 0 to 18446744073709551615`],
  [{ timestamp: "12" }, 'timestamp is "12", expected a number of milliseconds, 0 or more'],
  [{ timestamp: -1 }, "timestamp is -1, expected a number of milliseconds, 0 or more"],
  [{ timestamp: 2 }, `timestamp is 2, expected at least 3, the time of the previous request; ${sortHint}`],
  [{ timestamp: 1e13 }, "timestamp is 10000000000000, expected at most 2^53 ns (104 days) after the first request"],
  [{ input_length: "many" }, `input_length is "many", expected ${tokens}`],
  [{ input_length: 0 }, `input_length is 0, expected ${tokens}`],
  [{ input_length: -5 }, `input_length is -5, expected ${tokens}`],
  [{ input_length: 1.5 }, `input_length is 1.5, expected ${tokens}`],
  [{ input_length: 2 ** 31 }, `input_length is 2147483648, expected ${tokens}`],
  [{ output_length: -1 }, `output_length is -1, expected ${outputLength}`],
  [{ output_length: null }, `output_length is null, expected ${outputLength}`],
  [{ output_length: 2 ** 31 }, `output_length is 2147483648, expected ${outputLength}`],
  [{ max_output_length: 4 }, "max_output_length is 4, expected at least output_length, 5"],
  [{ session_id: 1.5 }, "session_id is 1.5, expected a string, an integer or null"],
  [{ session_id: [1] }, "session_id is [1], expected a string, an integer or null"],
  [{ priority: 2 ** 31 }, "priority is 2147483648, expected an integer from -2147483648 to 2147483647"],
  [{ retention_ns: -1 }, "retention_ns is -1, expected an integer of nanoseconds, 0 or more"],
  [{ retention_ns: 1.5 }, "retention_ns is 1.5, expected an integer of nanoseconds, 0 or more"],
  [{ parent: 1 }, "parent is 1, expected the number of an earlier request, counted from 0, or -1"],
  [{ hash_ids: 7 }, "hash_ids is 7, expected an array of integers from 0 to 18446744073709551615"],
  [{ hash_ids: [7, -9] }, `hash_ids[1] is -9, expected ${blockId}`],
  [{ hash_ids: [7.5, 9] }, `hash_ids[0] is 7.5, expected ${blockId}`],
  [{ hash_ids: [7, "9"] }, `hash_ids[1] is "9", expected ${blockId}`],
  [{ hash_ids: [7] }, "hash_ids has 1 ids, expected 2: input_length is 1000, in blocks of 512"],
  [{ hash_ids: [7, 9, 11] }, "hash_ids has 3 ids, expected 2: input_length is 1000, in blocks of 512"],
  [{ hash_ids: [] }, "hash_ids has 0 ids, expected 2: input_length is 1000, in blocks of 512"],
  [{ hash_ids: [8, 9] }, `hash_ids[1] is 9 after 8, expected after 7 as before: ${whole}`],
  [{ hash_ids: [9, 7] }, `hash_ids[0] is 9 at the start, expected after 7 as before: ${whole}`],
  [{ hash_ids: [7, 7] }, `hash_ids[1] is 7 after 7, expected at the start as before: ${whole}`],
])("a request with %j is refused", async (changed, message) => {
  // Both lines at a time of 3 ms, so that an earlier time would decrease.
  const lines = [line({ timestamp: 3 }), line({ timestamp: 3, ...changed })];
  expect(await failureOf(() => read(lines))).toBe(`t.jsonl:2: ${message}`);
});

test("a file that begins before the one before it ends is refused", async () => {
  const files = [fileOf([line({ timestamp: 50 })], "a.jsonl"), fileOf([line({ timestamp: 49 })], "b.jsonl")];
  expect((await failureOf(() => readTrace(mooncake.open(files, {})))).replaceAll(/\S*a\.jsonl/g, "a.jsonl")).toBe(
    `b.jsonl:1: timestamp is 49, expected at least 50, where a.jsonl ends: files are read one after the other as one trace; ${sortHint}`,
  );
});

test("a cut last line, and a file without requests, are refused", async () => {
  expect(await failureOf(() => read(`${good}\n${good.slice(0, 40)}`))).toBe(
    "t.jsonl:2: the last line is cut short: it is not valid JSON and has no line end",
  );
  expect(await failureOf(() => read("\n\n"))).toBe("t.jsonl: no requests, only blank lines");
  expect((await read(`\n${good}\n\n`)).requestCount).toBe(1);
});

test.runIf(haveRecordings)("the published conversation trace has its published totals", async () => {
  const trace = await readTrace(mooncake.open([recording("mooncake/conversation_trace.jsonl.gz")], {}));
  const sum = (column: Uint32Array) => column.reduce((total, value) => total + value, 0);
  expect(trace.requestCount).toBe(12_031);
  expect(trace.unitTokens).toBe(512);
  expect(sum(trace.inputTokens)).toBe(144_793_823);
  expect(sum(trace.outputTokens)).toBe(4_122_048);
  expect(trace.keys.length).toBe(288_500);
  expect(trace.distinctKeys).toBe(182_790);
  expect(Math.floor(trace.arrivalNs.at(-1)! / 1e9)).toBe(3536);
  expect(new Set(trace.arrivalNs).size).toBe(1180);
});
