import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readTrace, type Trace, TraceBuilder, type TraceRow } from "../../core/trace/trace.ts";
import { chatSource } from "../../traces/generators/chat.ts";
import { mooncake } from "../../traces/mooncake.ts";
import { writeMooncake } from "../../traces/write-mooncake.ts";
import { failureOf, folder, haveRecordings, recording } from "./files.ts";

const writtenTo = async (trace: Trace, name: string) => {
  const path = join(folder, name);
  await writeMooncake(trace, path);
  return readTrace(mooncake.open([path], {}));
};

test.runIf(haveRecordings)("the published trace is read and written unchanged, byte for byte", async () => {
  const original = recording("mooncake/conversation_trace.jsonl.gz");
  const path = join(folder, "again.jsonl");
  await writeMooncake(mooncake.open([original], {}), path);
  expect(readFileSync(path).equals(gunzipSync(readFileSync(original)))).toBe(true);
});

test("generated chat is restored with all its columns, plain and gzipped", async () => {
  const trace = await readTrace(chatSource({ requests: 1000 }));
  expect(await writtenTo(trace, "chat.jsonl")).toEqual(trace);
  expect(await writtenTo(trace, "chat.jsonl.gz")).toEqual(trace);
  expect(readFileSync(join(folder, "chat.jsonl.gz")).subarray(0, 2)).toEqual(Buffer.of(0x1f, 0x8b));
});

const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const length = fc.integer({ min: 0, max: 2 ** 31 - 1 });
const somePrompt = fc.record({
  gapNs: fc.integer({ min: 0, max: 2 ** 40 }),
  /** The prompt shares a number of leading blocks with an earlier request. */
  like: fc.nat(),
  sharedBlocks: fc.nat({ max: 6 }),
  ownBlocks: fc.nat({ max: 3 }),
  lastTokens: fc.nat(),
  outputTokens: fc.integer({ min: 0, max: 2 ** 30 }),
  roomTokens: fc.integer({ min: 0, max: 2 ** 30 }),
});
const someColumns = fc.record(
  {
    namespace: uint32,
    parent: fc.constant(-1),
    thinkNs: fc.maxSafeInteger().map(Math.abs),
    priority: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    retentionNs: fc.maxSafeInteger().map(Math.abs),
    category: uint32,
    markedTokens: length,
  },
  { requiredKeys: [] },
);
const requests = fc.array(fc.tuple(somePrompt, someColumns, fc.nat({ max: 3 })), { minLength: 1, maxLength: 20 });

test("any trace of content ids is restored with the same columns", async () => {
  await fc.assert(
    fc.asyncProperty(requests, fc.integer({ min: 2, max: 1000 }), fc.boolean(), async (rows, unit, packed) => {
      const builder = new TraceBuilder(unit);
      const prompts: number[][] = [];
      const sessions: number[] = [0];
      let arrivalNs = 0;
      let distinct = 0;
      rows.forEach(([prompt, columns, session], r) => {
        const like = prompts[prompt.like % (r + 1)] ?? [];
        const keys = like.slice(0, prompt.sharedBlocks);
        for (let i = keys.length === 0 ? -1 : 0; i < prompt.ownBlocks; i++) keys.push(distinct++);
        prompts.push(keys);
        if (session > 0 && !sessions.includes(session)) sessions.push(session);
        const row: TraceRow = {
          ...columns,
          arrivalNs: (arrivalNs += prompt.gapNs),
          inputTokens: (keys.length - 1) * unit + 1 + (prompt.lastTokens % unit),
          outputTokens: prompt.outputTokens,
          maxOutputTokens: prompt.outputTokens + prompt.roomTokens,
          keys,
          session: sessions.indexOf(session),
        };
        if (row.parent !== undefined) row.parent = r - 1;
        if (row.markedTokens !== undefined) row.markedTokens %= row.inputTokens + 1;
        builder.add(row);
      });
      const trace = builder.take();
      expect(await writtenTo(trace, packed ? "any.gz" : "any")).toEqual(trace);
    }),
  );
});

test("a file appears only when it is complete", async () => {
  const source = {
    format: "broken",
    files: [],
    content: "blocks" as const,
    async *batches() {
      yield await readTrace(chatSource({ requests: 10 }));
      throw new Error("the source broke");
    },
  };
  mkdirSync(join(folder, "empty"));
  await expect(writeMooncake(source, join(folder, "empty", "x.jsonl"))).rejects.toThrow("the source broke");
  expect(readdirSync(join(folder, "empty"))).toEqual([]);
});

test("token ids, and a place that cannot be written, are refused", async () => {
  const tokens = new TraceBuilder(1);
  tokens.add({ arrivalNs: 0, inputTokens: 1, outputTokens: 1, keys: [5] });
  const trace = tokens.take();
  expect(await failureOf(() => writeMooncake(trace, join(folder, "tokens.jsonl")))).toBe(
    "a trace of token ids cannot be written as mooncake, expected content ids of blocks",
  );
  expect(await failureOf(() => writeMooncake(chatSource(), join(folder, "none", "x.jsonl")))).toBe(
    "none/x.jsonl: cannot be written (ENOENT)",
  );
});
