import fc from "fast-check";
import { expect, test } from "vitest";
import { readTrace, rowOf } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { failureOf, fileOf } from "./files.ts";

const line = (timestamp: number, hashIds: readonly number[], rest = {}) =>
  JSON.stringify({ timestamp, input_length: 512 * hashIds.length, output_length: 1, hash_ids: hashIds, ...rest });

test("requests out of order are sorted by arrival, and their ids and parents follow", async () => {
  const file = fileOf(
    [line(3, [9, 4]), line(1, [9]), line(2, [9, 7], { parent: 1 }), line(1, [5], { parent: 0 })],
    "unsorted.jsonl",
  );
  expect(await failureOf(async () => readTrace(await openTrace([file])))).toBe(
    "unsorted.jsonl:2: timestamp is 1, expected at least 3, the time of the previous request; " +
      "kvlab trace convert --sort writes a sorted trace",
  );
  const source = await openTrace([file], { sort: true });
  const trace = await readTrace(source);
  expect([...trace.arrivalNs]).toEqual([1e6, 1e6, 2e6, 3e6]);
  expect(Array.from({ length: 4 }, (_, r) => [...(rowOf(trace, r).keys as Uint32Array)])).toEqual([
    [0],
    [1],
    [0, 2],
    [0, 3],
  ]);
  expect([...trace.optional.parent!]).toEqual([-1, -1, 0, -1]);
  expect(source.notes?.()).toEqual([
    "requests out of order are sorted by time: 3 of 4",
    "parents that arrive after their next turn are left out: 1",
  ]);
});

test("any order of requests is the stable order by arrival; a sorted trace stays as it is", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(9), { minLength: 1, maxLength: 40 }), async (times) => {
      const numbered = times.map((time, i) => ({ time, i }));
      const sorted = [...numbered].sort((a, b) => a.time - b.time);
      const read = async (rows: typeof numbered, options: object) =>
        readTrace(
          await openTrace(
            [
              fileOf(
                rows.map(({ time, i }) => line(time, [i])),
                "any.jsonl",
              ),
            ],
            options,
          ),
        );
      const expected = await read(sorted, {});
      expect(await read(numbered, { sort: true })).toEqual(expected);
      expect(await read(sorted, { sort: true })).toEqual(expected);
    }),
    { numRuns: 30 },
  );
});

test("times that are relative to the first request are relative to the earliest one, also over several files", async () => {
  const header = "TIMESTAMP,ContextTokens,GeneratedTokens";
  const a = fileOf([header, "2023-11-16 18:15:46.5,2,1", "2023-11-16 18:15:45,1,1"], "a.csv");
  const b = fileOf([header, "2023-11-16 18:15:44,3,1"], "b.csv");
  const trace = await readTrace(await openTrace([a, b], { sort: true }));
  expect([...trace.arrivalNs]).toEqual([0, 1e9, 2.5e9]);
  expect([...trace.inputTokens]).toEqual([3, 1, 2]);
});

test("a format whose reader has an order of its own refuses the option", async () => {
  const file = fileOf(['{"prompt": "x"}'], "p.jsonl");
  expect(await failureOf(() => openTrace([file], { sort: true }))).toBe(
    "--sort does not apply to the format prompts, expected one of azure, burstgpt, mooncake, qwen-bailian, token-ids",
  );
});

test("a sorted trace whose times exceed 2^53 ns is refused, as it would be when it is read again", async () => {
  const file = fileOf(
    [1_700_000_000_000_000_000n, 0n].map(
      (time) =>
        `{"arrival_time_ns": ${time}, "input_toks": 1, "output_toks": 1, "input_tok_ids": [1], "output_tok_ids": [2]}`,
    ),
    "far.jsonl",
  );
  expect(await failureOf(async () => readTrace(await openTrace([file], { sort: true })))).toMatch(
    /^the requests to sort span more than 2\^53 ns, expected times of one unit and origin$/,
  );
});

test("the notes of a sorted trace are there after its first batch", async () => {
  const source = await openTrace([fileOf([line(3, [9]), line(1, [8])], "unsorted.jsonl")], { sort: true });
  for await (const _ of source.batches()) break;
  expect(source.notes?.()).toEqual(["requests out of order are sorted by time: 1 of 2"]);
});
