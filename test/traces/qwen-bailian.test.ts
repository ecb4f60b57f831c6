import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readTrace, rowOf, type Trace, TraceBuilder, type TraceRow } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { qwenBailianWriter } from "../../traces/write-qwen-bailian.ts";
import { sourceOf } from "./any-trace.ts";
import { failureOf, fileOf, folder } from "./files.ts";

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

function traceOf(rows: readonly Partial<TraceRow>[], unitTokens = 16): Trace {
  const builder = new TraceBuilder(unitTokens);
  for (const row of rows) builder.add({ arrivalNs: 0, inputTokens: unitTokens, outputTokens: 1, keys: [0], ...row });
  return builder.take();
}

const written = join(folder, "written.jsonl");
const write = (trace: Trace) => qwenBailianWriter.write(written, sourceOf(trace, "blocks"));

/** Requests of sessions, each with the end of the content of an earlier request; a partial last block has an id or none. */
const someRequests = fc.array(
  fc.record({
    gapNs: fc.oneof(fc.nat(3), fc.integer({ min: 0, max: 2 ** 40 })),
    like: fc.nat(),
    shared: fc.nat(5),
    own: fc.nat(3),
    rest: fc.nat(15),
    hasLast: fc.boolean(),
    outputTokens: fc.nat(9),
    continues: fc.option(fc.nat()),
    category: fc.nat(3),
  }),
  { minLength: 1, maxLength: 20 },
);

/** A trace with the columns that the format has: sessions that are chains of parents, and categories. */
function sessionsOf(requests: typeof someRequests extends fc.Arbitrary<infer T> ? T : never): Trace {
  const categories: number[] = [];
  const rows: (TraceRow & { session: number })[] = [];
  let arrivalNs = 0;
  let distinct = 0;
  let sessions = 0;
  for (const [r, request] of requests.entries()) {
    const keys = Array.from(rows[request.like % (r + 1)]?.keys ?? []).slice(0, request.shared);
    for (let i = 0; i < request.own; i++) keys.push(distinct++);
    const parent = request.continues === null || r === 0 ? -1 : request.continues % r;
    if (!categories.includes(request.category)) categories.push(request.category);
    const rest = keys.length === 0 ? Math.max(1, request.rest) : request.rest;
    rows.push({
      arrivalNs: (arrivalNs += request.gapNs),
      inputTokens: request.hasLast && keys.length > 0 ? 16 * keys.length - request.rest : 16 * keys.length + rest,
      outputTokens: request.outputTokens,
      keys,
      session: parent < 0 ? ++sessions : rows[parent].session,
      parent,
      category: categories.indexOf(request.category) + 1,
    });
  }
  return traceOf(rows);
}

test("every trace whose columns the format has is restored after it was written", async () => {
  await fc.assert(
    fc.asyncProperty(someRequests, async (requests) => {
      const trace = sessionsOf(requests);
      await write(trace);
      const source = await openTrace([written]);
      expect(source.format).toBe("qwen-bailian");
      expect(await readTrace(source)).toEqual(trace);
    }),
  );
});

test("a turn without a parent continues the one before it in its session", async () => {
  await write(traceOf([{ session: 1 }, { session: 2 }, { session: 1 }, { session: 0 }]));
  const fields = readFileSync(written, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(fields.map(({ chat_id, parent_chat_id, turn, type }) => [chat_id, parent_chat_id, turn, type])).toEqual([
    [0, -1, 1, "text"],
    [1, -1, 1, "text"],
    [2, 0, 2, "text"],
    [3, -1, 1, "text"],
  ]);
});

test("blocks of another size, and a turn that continues another session, are refused", async () => {
  expect(await failureOf(() => write(traceOf([{}], 512)))).toBe(
    "the blocks of the trace have 512 tokens, expected 16 for qwen-bailian",
  );
  expect(await failureOf(() => write(traceOf([{ session: 1 }, { session: 2, parent: 0 }])))).toBe(
    "request 1 of session 2 continues request 0 of session 1: in qwen-bailian it would be of the same session",
  );
});
