import { expect, test } from "vitest";
import { readTrace, rowOf } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { failureOf, fileOf } from "./files.ts";

const request = {
  chat_id: 159,
  parent_chat_id: -1,
  timestamp: 61.114,
  input_length: 40,
  output_length: 132,
  type: "text",
  turn: 1,
  hash_ids: [1089, 1090, 6326],
};
const lineOf = (changed: Record<string, unknown>) => JSON.stringify({ ...request, ...changed });
const open = (...changed: Record<string, unknown>[]) => openTrace([fileOf(changed.map(lineOf), "q.jsonl")]);
const failure = (...changed: Record<string, unknown>[]) => failureOf(async () => readTrace(await open(...changed)));

test("the format is recognised, and times are seconds", async () => {
  const source = await open({}, { chat_id: 160, timestamp: 62.5 });
  expect([source.format, source.content]).toEqual(["qwen-bailian", "blocks"]);
  const trace = await readTrace(source);
  expect(trace.unitTokens).toBe(16);
  expect([...trace.arrivalNs]).toEqual([61_114_000_000, 62_500_000_000]);
});

test("equal hash ids are equal content only after equal blocks", async () => {
  const trace = await readTrace(
    await open({}, { hash_ids: [1089, 1090, 7] }, { hash_ids: [1090, 1089, 6326] }, { hash_ids: [1089, 1090, 6326] }),
  );
  const keys = Array.from({ length: 4 }, (_, r) => Array.from(rowOf(trace, r).keys));
  expect(keys).toEqual([
    [0, 1, 2],
    [0, 1, 3],
    [4, 5, 6],
    [0, 1, 2],
  ]);
});

test("the partial last block may have no id", async () => {
  const trace = await readTrace(await open({ hash_ids: [1, 2] }, { input_length: 15, hash_ids: [] }));
  expect([...trace.keyStart]).toEqual([0, 2, 2]);
  expect(await failure({ hash_ids: [1] })).toBe(
    "q.jsonl:1: hash_ids has 1 ids, expected 3: input_length is 40, in blocks of 16",
  );
});

test("sessions and previous turns follow from the chat ids, categories from the type", async () => {
  const trace = await readTrace(
    await open(
      { chat_id: 1 },
      { chat_id: 2, type: "file" },
      { chat_id: 3, parent_chat_id: 1, turn: 2 },
      { chat_id: 4, parent_chat_id: 3, turn: 3 },
      { chat_id: 5, parent_chat_id: 99 },
      { chat_id: 6, parent_chat_id: 99 },
    ),
  );
  expect([...trace.optional.session!]).toEqual([1, 2, 1, 1, 3, 3]);
  expect([...trace.optional.parent!]).toEqual([-1, -1, 0, 2, -1, -1]);
  expect([...trace.optional.category!]).toEqual([1, 2, 1, 1, 1, 1]);
});

test.each<[Record<string, unknown>, string]>([
  [{ chat_id: -1 }, "chat_id is -1, expected an integer from 0 to 9007199254740991"],
  [{ parent_chat_id: 159 }, "parent_chat_id is 159, expected another one than chat_id"],
  [{ type: 3 }, "type is 3, expected a string"],
  [{ turn: 0 }, "turn is 0, expected an integer, 1 or more"],
  [{ timestamp: -1 }, "timestamp is -1, expected a number of seconds, 0 or more"],
  [{ hash_ids: [1.5, 2, 3] }, "hash_ids[0] is 1.5, expected an integer from 0 to 18446744073709551615"],
])("a request with %j is refused", async (changed, message) => {
  expect(await failure(changed)).toBe(`q.jsonl:1: ${message}`);
});
