import { expect, test } from "vitest";
import { readTrace, rowOf } from "../../core/trace/trace.ts";
import { tokenIds } from "../../traces/token-ids.ts";
import { failureOf, fileOf, haveRecordings, recording } from "./files.ts";

const good = {
  input_toks: 3,
  output_toks: 2,
  arrival_time_ns: 46_926_808,
  input_tok_ids: [5971, 220, 2147483647],
  output_tok_ids: [0, 9],
};

test("tokens of prompts and outputs become keys", async () => {
  const short = { ...good, arrival_time_ns: 50_000_000, output_toks: 0, output_tok_ids: [] };
  const trace = await readTrace(tokenIds.open([fileOf([JSON.stringify(good), JSON.stringify(short)])], {}));
  expect(trace.unitTokens).toBe(1);
  expect(trace.distinctKeys).toBe(2 ** 31);
  const rows = [rowOf(trace, 0), rowOf(trace, 1)];
  expect(rows.map(({ arrivalNs }) => arrivalNs)).toEqual([46_926_808, 50_000_000]);
  expect(rows.map(({ keys }) => [...(keys as Uint32Array)])).toEqual([good.input_tok_ids, good.input_tok_ids]);
  expect(rows.map(({ generatedKeys }) => [...(generatedKeys as Uint32Array)])).toEqual([[0, 9], []]);
});

test.each<[Record<string, unknown>, string]>([
  [{ input_toks: undefined }, "input_toks is missing, expected an integer from 1 to 2147483647"],
  [{ output_tok_ids: undefined }, "output_tok_ids is missing, expected an array of token ids"],
  [{ arrival_time_ns: -1 }, "arrival_time_ns is -1, expected a number of nanoseconds, 0 or more"],
  [{ input_toks: 2 }, "input_tok_ids has 3 ids, expected 2 (input_toks)"],
  [{ output_toks: 5 }, "output_tok_ids has 2 ids, expected 5 (output_toks)"],
  [{ input_tok_ids: [1, 2, 2147483648] }, "input_tok_ids[2] is 2147483648, expected a token id from 0 to 2147483647"],
  [{ input_tok_ids: [1, 2, -3] }, "input_tok_ids[2] is -3, expected an integer from 0 to 18446744073709551615"],
  [{ input_tok_ids: "hello" }, 'input_tok_ids is "hello", expected an array of token ids'],
])("a request with %j is refused", async (changed, message) => {
  const path = fileOf([JSON.stringify({ ...good, ...changed })], "t.jsonl");
  expect(await failureOf(() => readTrace(tokenIds.open([path], {})))).toBe(`t.jsonl:1: ${message}`);
});

test.runIf(haveRecordings)("the recorded ShareGPT trace has its published totals", async () => {
  const trace = await readTrace(tokenIds.open([recording("sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz")], {}));
  const sum = (column: Uint32Array) => column.reduce((total, value) => total + value, 0);
  expect(trace.requestCount).toBe(300);
  expect(sum(trace.inputTokens)).toBe(257_239);
  expect(sum(trace.outputTokens)).toBe(195_753);
  expect(trace.keys.length).toBe(257_239);
  expect(trace.optional.generatedKeys!.length).toBe(195_753);
});
