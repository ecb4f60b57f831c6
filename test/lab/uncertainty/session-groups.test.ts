import { expect, test } from "vitest";
import { cacheReport } from "../../../core/cache/report.ts";
import { CacheReplay } from "../../../core/replica/replay.ts";
import { readTrace, type Trace } from "../../../core/trace/trace.ts";
import type { SummedMetric } from "../../../lab/output/request-hits.ts";
import { inMemory } from "../../../lab/run/block-stream.ts";
import { discarded } from "../../../lab/run/run-sink.ts";
import { sessionGroups } from "../../../lab/uncertainty/session-groups.ts";
import { SessionHits } from "../../../lab/uncertainty/session-hits.ts";
import { chatSource } from "../../../traces/generators/chat.ts";
import { letterTrace } from "../../support/letters.ts";
import { configOf } from "../../support/replays.ts";

const groupsOf = (trace: Trace) => sessionGroups(inMemory(trace, CacheReplay.blockKeys(configOf(trace), trace)));

test("without sessions in the trace, a request continues the session whose last prompt it extends", async () => {
  // S is a system prompt; AB and XY are two conversations, whose turns alternate; the partial last block is not shared.
  const trace = letterTrace(["SAB", "SXY", "SACD", "SXZ", "SACEF", "SAB"], { lastTokens: 5 });
  const { groupOf, sessions, areInferred } = await groupsOf(trace);
  expect([...groupOf]).toEqual([0, 1, 0, 1, 0, 2]);
  expect({ sessions, areInferred }).toEqual({ sessions: 3, areInferred: true });
});

test("of several prompts that extend the same one, the first continues its session", async () => {
  const { groupOf } = await groupsOf(letterTrace(["S", "SA", "SB", "SC", "SAD"]));
  expect([...groupOf]).toEqual([0, 0, 1, 2, 0]);
});

test("the sessions of generated chats are found from their prompts", async () => {
  const trace = await readTrace(chatSource({ requests: 1500 }));
  const named = await groupsOf(trace);
  const { session: _, ...optional } = trace.optional;
  const inferred = await groupsOf({ ...trace, optional });
  expect(named.areInferred).toBe(false);
  expect(inferred.areInferred).toBe(true);
  expect(Math.abs(inferred.sessions - named.sessions)).toBeLessThan(0.01 * named.sessions);
});

test.each(["block", "token", "requestMeanBlock", "requestMeanToken", "fullBlock"] satisfies SummedMetric[])(
  "the hits of all sessions ÷ their lookups are the hit ratio %s of the report",
  async (metric) => {
    const trace = await readTrace(chatSource({ requests: 600 }));
    const warmup = 100;
    const hits = new SessionHits(metric, await groupsOf(trace), 16, warmup, discarded);
    const replay = new CacheReplay({ ...configOf(trace, { blocks: 400 }), warmup }, (results) =>
      hits.addRequests(results),
    );
    replay.feed(trace);
    const { cache } = replay.end();
    const total = (values: Float64Array) => values.reduce((sum, value) => sum + value, 0);
    expect(cache.counters.hitBlocks).toBeGreaterThan(0);
    expect(total(hits.hits) / total(hits.lookups)).toBeCloseTo(cacheReport(cache.counters).hitRatio[metric], 12);
  },
);
