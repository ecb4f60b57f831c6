import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { replayed } from "../support/replays.ts";

async function read(rows: readonly object[]): Promise<Trace> {
  const file = join(mkdtempSync(join(tmpdir(), "kvlab-")), "trace.jsonl");
  writeFileSync(file, rows.map((row) => JSON.stringify(row)).join("\n"));
  return await readTrace(await openTrace([file]));
}

const prompt = Array.from({ length: 32 }, (_, i) => i);

/** A request of either format, always with the same prompt. */
const formats: Record<string, (more: object) => object> = {
  mooncake: (more: object) => ({ timestamp: 0, input_length: 1024, output_length: 1, hash_ids: [0, 1], ...more }),
  "token-ids": (more: object) => ({
    ...{ input_toks: 32, output_toks: 1, arrival_time_ns: 0, input_tok_ids: prompt, output_tok_ids: [1] },
    ...more,
  }),
};

describe.each(Object.entries(formats))("%s", (_, request) => {
  test("requests of different tenants or adapters share no content, those of the same one do", async () => {
    const trace = await read(
      [
        { cache_salt: "a" },
        { cache_salt: "b" },
        { cache_salt: "a", adapter: "x" },
        { adapter: "x" },
        { adapter: "x", namespace: 1 },
        {},
        { namespace: 1 },
        { cache_salt: null, adapter: null },
        { cache_salt: "a" },
        { adapter: "x", cache_salt: "a" },
        { adapter: "x", namespace: 1 },
        { cache_salt: 7 },
        { cache_salt: "7" },
      ].map((more) => request(more)),
    );
    const { hitTokens } = replayed(trace, { index: "hash-table", policy: "lru" }).requests;
    // The sixth namespace is that of requests without any; then the namespaces repeat.
    const whole = trace.inputTokens[0];
    expect([...hitTokens].map((tokens) => (tokens === whole ? 1 : tokens))).toEqual([
      ...[0, 0, 0, 0, 0, 0, 0],
      ...[1, 1, 1, 1],
      ...[0, 0],
    ]);
  });

  test("the other columns are read, too", async () => {
    const trace = await read([
      request({ session_id: "s", priority: 3, retention_ns: 9, marked_tokens: 16, category: 2, max_output_length: 5 }),
      request({ session_id: "s", parent: 0, think_ns: 7 }),
    ]);
    const { session, priority, retentionNs, markedTokens, category, parent, thinkNs } = trace.optional;
    expect(
      [session, priority, retentionNs, markedTokens, category, parent, thinkNs].map((column) => [...column!]),
    ).toEqual([
      [1, 1],
      [3, 0],
      [9, 0],
      [16, 0],
      [2, 0],
      [-1, 0],
      [0, 7],
    ]);
    expect([...trace.maxOutputTokens]).toEqual([5, 1]);
  });

  test("what clients state about their sessions is read, too", async () => {
    const trace = await read([
      request({ session_id: 1, tool: "bash", next_use_ns: 5, next_use_steps: 2 }),
      request({ session_id: 1, tool: "edit", keep_ns: 6 }),
      request({ session_id: 1, tool: "bash" }),
      request({ session_id: 1, tool: null, session_end: 2 }),
    ]);
    const { tool, nextUseNs, nextUseSteps, keepNs, sessionEnd } = trace.optional;
    expect([tool, nextUseNs, nextUseSteps, keepNs, sessionEnd].map((column) => [...column!])).toEqual([
      [1, 2, 1, 0],
      [5, 0, 0, 0],
      [2, 0, 0, 0],
      [0, 6, 0, 0],
      [0, 0, 0, 2],
    ]);
    await expect(read([request({ session_end: 3 })])).rejects.toThrow(/session_end is 3, expected 0 \(it goes on\)/);
  });

  test("an invalid field is refused in one line", async () => {
    await expect(read([request({ cache_salt: [] })])).rejects.toThrow(
      /:1: cache_salt is .*expected a string, an integer or null/,
    );
    await expect(read([request({ max_output_length: 0 })])).rejects.toThrow(
      /max_output_length is 0, expected at least/,
    );
    const rows = [request({ namespace: 2 ** 31 }), request({ adapter: "x" })];
    await expect(read(rows)).rejects.toThrow(/:2: namespace is 2147483648, expected less than 2147483648 beside/);
  });
});
