import fc from "fast-check";
import { expect, test } from "vitest";
import { BlockKeys } from "../../../core/trace/content.ts";
import { readTrace, TraceBuilder, type TraceRow } from "../../../core/trace/trace.ts";
import { mooncake } from "../../../traces/mooncake.ts";
import { ReuseDistances } from "../../../traces/stats/reuse-distance.ts";
import { traceStats } from "../../../traces/stats/stats.ts";
import { haveRecordings, recording } from "../files.ts";

function traceOf(unitTokens: number, rows: readonly (Partial<TraceRow> & { keys: number[] })[]) {
  const builder = new TraceBuilder(unitTokens);
  for (const row of rows) {
    builder.add({ arrivalNs: 0, inputTokens: row.keys.length * unitTokens, outputTokens: 1, ...row });
  }
  return builder.take();
}

test("the statistics of a small trace are those worked by hand", () => {
  // Prefixes: 0 → 1 → 2 and 0 → 1 → 3; the last block of the third request is partial.
  const trace = traceOf(10, [
    { arrivalNs: 1e9, inputTokens: 30, outputTokens: 4, keys: [0, 1, 2], session: 1 },
    { arrivalNs: 1.5e9, inputTokens: 30, outputTokens: 8, keys: [0, 1, 2], session: 2 },
    { arrivalNs: 2.1e9, inputTokens: 25, outputTokens: 6, keys: [0, 1, 3], session: 1 },
    { arrivalNs: 5e9, inputTokens: 10, outputTokens: 2, keys: [4], session: 0 },
  ]);
  expect(traceStats(trace)).toEqual({
    requests: 4,
    unitTokens: 10,
    inputTokens: 95,
    outputTokens: 20,
    inputLength: { mean: 23.75, p50: 25, p90: 30, p99: 30, max: 30 },
    outputLength: { mean: 5, p50: 4, p90: 8, p99: 8, max: 8 },
    durationS: 4,
    requestsPerSMean: 1,
    requestsPerSPeak: 2, // at 1.5 s and 2.1 s; from 1 s to 2.1 s is more than a second
    sessions: { count: 2, turns: { mean: 1.5, p50: 1, p90: 2, p99: 2, max: 2 } },
    content: {
      blockTokens: 10,
      distinctBlocks: 5,
      blockReferences: 10,
      repeatedShare: 0.5,
      // 0 1 2 | 0 1 2 | 0 1 3 | 4: each repeat has the two other blocks since its last use.
      reuseDistanceBlocks: { mean: 2, p50: 2, p90: 2, p99: 2, max: 2 },
      // 0, all 30 tokens, the first two blocks, 0.
      repeatedPrefixTokens: { mean: 12.5, p50: 0, p90: 30, p99: 30, max: 30 },
      sharedPrefixes: [
        { key: 1, requests: 3, tokens: 20 }, // 0 is always followed by 1
        { key: 2, requests: 2, tokens: 30 },
      ],
    },
  });
});

test("arrivals exactly a second apart are in different windows", () => {
  const arrivals = [0, 1e9, 1.9e9, 2e9 - 1, 2e9].map((arrivalNs) => ({ arrivalNs, keys: [0] }));
  expect(traceStats(traceOf(16, arrivals)).requestsPerSPeak).toBe(3);
  const atOnce = traceStats(traceOf(16, [{ keys: [0] }, { keys: [0] }]));
  expect([atOnce.requestsPerSMean, atOnce.requestsPerSPeak]).toEqual([undefined, 2]);
});

test("token ids have content ids only for a given block size", () => {
  const trace = traceOf(1, [{ keys: [1, 2, 3, 4, 5] }, { keys: [1, 2, 9, 9, 9] }]);
  expect(traceStats(trace).content).toBeUndefined();
  const blocks = new BlockKeys({ unitTokens: 1, blockTokens: 2 }).of(trace);
  const content = traceStats(trace, blocks).content!;
  expect([content.distinctBlocks, content.blockReferences, content.repeatedShare]).toEqual([3, 4, 0.25]);
  expect(content.sharedPrefixes).toEqual([{ key: 0, requests: 2, tokens: 2 }]);
});

test("namespaces share no content, so their blocks must be given", () => {
  const trace = traceOf(16, [
    { keys: [0], namespace: 1 },
    { keys: [0], namespace: 2 },
  ]);
  expect(traceStats(trace).content).toBeUndefined();
  const blocks = new BlockKeys({ unitTokens: 16, blockTokens: 16 }).of(trace);
  expect(traceStats(trace, blocks).content!.repeatedShare).toBe(0);
});

test("a trace without repeats has no reuse distances and no shared prefixes", () => {
  const { content } = traceStats(traceOf(16, [{ keys: [0, 1] }, { keys: [2] }]));
  expect(content).toMatchObject({ repeatedShare: 0, reuseDistanceBlocks: undefined, sharedPrefixes: [] });
});

test("reuse distances are those of a naive count, also when times are renumbered", () => {
  // More references than 1,024 marks, so that they run out several times.
  const references = fc.array(fc.nat({ max: 40 }), { minLength: 0, maxLength: 60 });
  fc.assert(
    fc.property(references, fc.integer({ min: 1, max: 60 }), (part, times) => {
      const keys = Uint32Array.from({ length: part.length * times }, (_, i) => part[i % part.length]);
      const naive = new Float64Array(41);
      keys.forEach((key, i) => {
        const last = keys.subarray(0, i).lastIndexOf(key);
        if (last >= 0) naive[new Set(keys.subarray(last + 1, i)).size]++;
      });
      const distances = new ReuseDistances();
      for (const key of keys) distances.add(key);
      expect(distances.counts.subarray(0, 41)).toEqual(naive);
    }),
    { numRuns: 40 },
  );
});

test.runIf(haveRecordings)("the published conversation trace has its published sharing", async () => {
  const trace = await readTrace(mooncake.open([recording("mooncake/conversation_trace.jsonl.gz")], {}));
  const { content, durationS, requestsPerSMean } = traceStats(trace);
  expect(Math.round(durationS)).toBe(3537);
  expect(requestsPerSMean).toBeCloseTo(3.4, 2);
  expect(content!.distinctBlocks).toBe(182_790);
  expect(content!.repeatedShare).toBeCloseTo((288_500 - 182_790) / 288_500, 12);
  expect(content!.sharedPrefixes[0]).toEqual({ key: 0, requests: 12_031, tokens: 512 });
});
