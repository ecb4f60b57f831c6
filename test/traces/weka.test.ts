import { describe, expect, test } from "vitest";
import { readTrace, rowOf, type Trace } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { weka } from "../../traces/weka.ts";
import { failureOf, fileOf, haveRecordings, recording } from "./files.ts";

const request = { t: 0, type: "n", in: 200, out: 5, api: 1.5, think: 0, ranges: [[1, 3]] };
const session = { id: "a", block_size: 64, scope: "local", tool_tokens: 10, system_tokens: 5, requests: [request] };
const open = (sessions: readonly object[], options = {}) =>
  openTrace(
    [
      fileOf(
        sessions.map((each) => JSON.stringify(each)),
        "w.jsonl",
      ),
    ],
    options,
  );
const failure = (changed: Record<string, unknown>) =>
  failureOf(async () => readTrace(await open([session, { ...session, ...changed }])));
const keysOf = (trace: Trace) => Array.from({ length: trace.requestCount }, (_, r) => Array.from(rowOf(trace, r).keys));

test("sessions are merged by arrival, their ids are local, and sub-agents are sessions of their own", async () => {
  const agent = {
    t: 2,
    type: "subagent",
    agent: "x",
    requests: [
      {
        ...request,
        ranges: [
          [1, 1],
          [9, 2],
        ],
      },
    ],
  };
  const first = { ...session, requests: [request, agent, { ...request, t: 3, in: 210, think: 0.5 }] };
  const second = {
    ...session,
    requests: [
      { ...request, t: 0 },
      { ...request, t: 2.25, in: 70, ranges: [[1, 1]] },
    ],
  };
  const source = await open([first, second]);
  expect([source.format, source.content]).toEqual(["weka", "blocks"]);
  const trace = await readTrace(source);
  expect(trace.unitTokens).toBe(64);
  expect([...trace.arrivalNs]).toEqual([0, 0, 2e9, 2.25e9, 3e9]);
  expect(keysOf(trace)).toEqual([[0, 1, 2], [3, 4, 5], [0, 6, 7], [3], [0, 1, 2]]);
  expect([...trace.optional.session!]).toEqual([1, 3, 2, 3, 1]);
  expect([...trace.optional.parent!]).toEqual([-1, -1, -1, 1, 0]);
  expect([...trace.optional.thinkNs!]).toEqual([0, 0, 0, 0, 0.5e9]);
  expect([...trace.optional.category!]).toEqual([0, 0, 1, 0, 0]);
  expect(trace.optional.tool).toBeUndefined();
});

test("ids may be lists instead of ranges, also very large ones", async () => {
  const big = 4_294_967_290;
  const requests = [
    { ...request, ranges: undefined, hash_ids: [7, 8, big] },
    {
      ...request,
      ranges: [
        [7, 2],
        [big, 1],
      ],
    },
  ];
  const trace = await readTrace(await open([{ ...session, scope: undefined, hash_id_scope: "local", requests }]));
  expect(keysOf(trace)).toEqual([
    [0, 1, 2],
    [0, 1, 2],
  ]);
});

test("starts are spread over a time by a seed", async () => {
  const sessions = Array.from({ length: 50 }, () => session);
  const arrivals = async (options: object) => [...(await readTrace(await open(sessions, options))).arrivalNs];
  expect(new Set(await arrivals({})).size).toBe(1);
  const spread = await arrivals({ sessionSpread: { seconds: 100, seed: 1 } });
  expect(spread[49]).toBeGreaterThan(80e9);
  expect(spread[49]).toBeLessThan(100e9);
  expect(await arrivals({ sessionSpread: { seconds: 100, seed: 1 } })).toEqual(spread);
  expect(await arrivals({ sessionSpread: { seconds: 100, seed: 2 } })).not.toEqual(spread);
});

test.each<[Record<string, unknown>, string]>([
  [{ block_size: 32 }, "block_size is 32, expected 64, as before or as given with --unit"],
  [{ scope: "global" }, 'scope is "global", expected "local": ids of one session'],
  [{ requests: 1 }, "requests is 1, expected an array of objects"],
  [{ requests: [1] }, "requests[0] is 1, expected an object"],
  [{ requests: [{ ...request, t: -1 }] }, "requests[0].t is -1, expected a number of seconds from 0 to 7776000"],
  [
    { requests: [{ ...request, t: 2 }, request] },
    "requests[1].t is 0, expected at least 2, the time of the request before",
  ],
  [{ requests: [{ ...request, in: 0 }] }, "requests[0].in is 0, expected an integer from 1 to 2147483647"],
  [
    { requests: [{ ...request, in: 300 }] },
    "requests[0].in is 300, expected 3 whole blocks of 64 tokens, as many as the request has ids",
  ],
  [
    { requests: [{ ...request, ranges: [[1, 0]] }] },
    "requests[0].ranges is [[1,0]], expected pairs of first id and count, with integers from 0 to 4294967294",
  ],
  [
    {
      requests: [
        request,
        {
          ...request,
          ranges: [
            [1, 1],
            [3, 2],
          ],
        },
      ],
    },
    "the id 3 follows another id than before, expected the same: an id identifies a block and all blocks before it",
  ],
])("a session with %j is refused", async (changed, message) => {
  expect(await failure(changed)).toBe(`w.jsonl:2: ${message}`);
});

test("a name that is there twice is refused at any depth", async () => {
  const text = JSON.stringify(session).replace('"out":5', '"out":5,"o\\u0075t":6');
  expect(await failureOf(() => readTrace(weka.open([fileOf([text], "w.jsonl")], {})))).toBe(
    'w.jsonl:1: the name "out" occurs twice in one object at column 125',
  );
});

describe.runIf(haveRecordings)("the published sessions", () => {
  const path = () => recording("weka/weka_710_rle.jsonl.gz");

  test("have their totals, with and without sub-agents", async () => {
    const totals = { requests: 0, tokens: 0, references: 0, subAgents: 0, subAgentReferences: 0, distinct: 0 };
    for await (const batch of weka.open([path()], {}).batches()) {
      for (let r = 0; r < batch.requestCount; r++) {
        const references = batch.keyStart[r + 1] - batch.keyStart[r];
        totals.requests++;
        totals.tokens += batch.inputTokens[r];
        totals.references += references;
        totals.subAgents += batch.optional.category![r];
        totals.subAgentReferences += batch.optional.category![r] * references;
      }
      totals.distinct = batch.distinctKeys;
    }
    expect(totals).toEqual({
      ...{ requests: 49_334, tokens: 6_037_445_403, references: 94_310_647, distinct: 3_450_959 },
      ...{ subAgents: 676, subAgentReferences: 94_310_647 - 93_832_730 },
    });
  });

  test("have the published overlap of each request with the one before it in its session", async () => {
    const hits = new Map<number, [hits: number, blocks: number]>();
    const before = new Map<number, Uint32Array>();
    for await (const batch of weka.open([path()], {}).batches()) {
      for (let r = 0; r < batch.requestCount; r++) {
        if (batch.optional.category![r] === 1) continue;
        const session = batch.optional.session![r];
        const keys = batch.keys.subarray(batch.keyStart[r], batch.keyStart[r + 1]);
        const previous = before.get(session);
        let common = 0;
        while (previous && common < keys.length && keys[common] === previous[common]) common++;
        const sum = hits.get(session) ?? [0, 0];
        hits.set(session, [sum[0] + common, sum[1] + keys.length]);
        before.set(session, keys);
      }
    }
    const overlaps = [...hits.values()].map(([common, blocks]) => (100 * common) / blocks).sort((a, b) => a - b);
    const percentile = (share: number) => {
      const at = share * (overlaps.length - 1);
      const low = Math.floor(at);
      const high = Math.min(low + 1, overlaps.length - 1);
      return overlaps[low] + (overlaps[high] - overlaps[low]) * (at - low);
    };
    const mean = overlaps.reduce((sum, value) => sum + value, 0) / overlaps.length;
    const found = [...[0, 0.25, 0.5, 0.75, 1].map(percentile), mean].map((value) => value.toFixed(1));
    expect(overlaps.length).toBe(710);
    expect(found).toEqual(["60.6", "91.9", "95.4", "97.2", "99.3", "92.9"]);
  });
});
