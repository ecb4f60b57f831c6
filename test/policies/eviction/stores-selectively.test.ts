import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { evictionWith } from "../../../core/replica/compose.ts";
import { replayTrace } from "../../../core/replica/replay.ts";
import { BlockKeys } from "../../../core/trace/content.ts";
import { readTrace, type Trace } from "../../../core/trace/trace.ts";
import { FrequencySketch } from "../../../policies/eviction/frequency-sketch.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../../../policies/registry.ts";
import { chatSource } from "../../../traces/generators/chat.ts";
import { generated } from "../../../traces/generators/generator.ts";
import { fewShot, subAgents } from "../../../traces/generators/index.ts";

// `ttl`, `tinylfu` and `marconi` make the decisions of independent implementations over plain arrays, for a hash table and one request at a time.

interface Cached {
  readonly key: number;
  readonly usedNs: number;
}

interface Decisions {
  readonly hits: number[];
  readonly evicted: number[];
  readonly expired: number[];
  /** Blocks that were not stored. */
  refused: number;
}

/** Serves the trace with an array of cached blocks in the order of their last release, the oldest first. */
function naive(
  trace: Trace,
  capacity: number,
  {
    ttlNs = Number.POSITIVE_INFINITY,
    sketch,
    earlier,
  }: {
    readonly ttlNs?: number;
    readonly sketch?: FrequencySketch;
    /** Contents of earlier requests, to which blocks are limited. */
    readonly earlier?: Set<number>;
  },
): Decisions {
  const { keys, start, promptBlocks } = new BlockKeys({
    unitTokens: trace.unitTokens,
    blockTokens: trace.unitTokens,
  }).of(trace);
  const decisions: Decisions = { hits: [], evicted: [], expired: [], refused: 0 };
  let cached: Cached[] = [];
  const has = (key: number) => cached.some((one) => one.key === key);
  for (let request = 0; request < trace.requestCount; request++) {
    const now = trace.arrivalNs[request];
    for (const { key } of cached.filter(({ usedNs }) => usedNs + ttlNs <= now)) decisions.expired.push(key);
    cached = cached.filter(({ usedNs }) => usedNs + ttlNs > now);
    const prompt = [...keys.subarray(start[request], start[request] + promptBlocks[request])];
    for (const key of prompt) sketch?.add(key);
    const isNew = (key: number) => earlier !== undefined && !earlier.has(key);
    const branchesOffAt = prompt.findIndex(isNew);
    for (const key of prompt) earlier?.add(key);
    if (Math.ceil(trace.inputTokens[request] / trace.unitTokens) > capacity) {
      decisions.hits.push(0);
      continue;
    }
    const firstMiss = prompt.findIndex((key) => !has(key));
    const hits = firstMiss < 0 ? prompt.length : firstMiss;
    decisions.hits.push(hits);
    const missing = prompt.filter((key) => !has(key));
    while (cached.length + missing.length > capacity) {
      const victim = cached.find(({ key }) => !prompt.includes(key))!;
      decisions.evicted.push(victim.key);
      cached = cached.filter((one) => one !== victim);
    }
    let stored = prompt.length;
    const rival = cached.find(({ key }) => !prompt.includes(key));
    if (sketch !== undefined && decisions.evicted.length > 0 && rival !== undefined) {
      const least = sketch.estimate(rival.key);
      const refused = prompt.findIndex((key, i) => i >= hits && sketch.estimate(key) <= least);
      if (refused >= 0) stored = refused;
    }
    if (branchesOffAt >= 0) stored = branchesOffAt;
    // A block past the stored prefix that was cached before stays cached; the request has used it if it recomputed it in place.
    const used = prompt.filter((key, i) => i < stored || has(key));
    decisions.refused += prompt.length - stored;
    cached = cached.filter(({ key }) => !used.includes(key));
    for (const key of used.reverse()) cached.push({ key, usedNs: now });
  }
  return decisions;
}

function ours(trace: Trace, capacity: number, policy: string, options: Record<string, number>): Decisions {
  const { requests, log, cache } = replayTrace(trace, {
    index: indexRegistry.get("hash-table"),
    eviction: evictionWith(evictionRegistry.get(policy), options),
    allocator: allocatorRegistry.get("block"),
    scheduler: schedulerRegistry.get("naive"),
    ...{ blockTokens: trace.unitTokens, blocks: capacity, rules: {}, seed: 1, events: true },
  });
  const decisions: Decisions = {
    hits: [...requests.hitBlocks],
    evicted: [],
    expired: [],
    refused: cache.counters.refusedBlocks,
  };
  for (const event of log!.events()) {
    if (event.name === "evict") decisions.evicted.push(event.content);
    if (event.name === "drop") decisions.expired.push(event.content);
  }
  expect(cache.counters.expiredBlocks).toBe(decisions.expired.length);
  return decisions;
}

const traces: [string, () => Promise<Trace>][] = [
  [
    "chat",
    () => readTrace(chatSource({ requests: 160, seed: 3, unitTokens: 128, systemPrompts: 8, sessionsPerS: 0.5 })),
  ],
  ["few-shot", () => readTrace(generated(fewShot, { requests: 160, seed: 5, unitTokens: 256 }))],
  ["sub-agents", () => readTrace(generated(subAgents, { requests: 220, seed: 7, unitTokens: 512 }))],
];

/** Eight capacities in blocks; with the smallest one the longest prompts are refused. */
function capacitiesOf(trace: Trace): number[] {
  const longest = Math.ceil(Math.max(...trace.inputTokens) / trace.unitTokens);
  return [-0.02, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6].map((share) =>
    Math.floor(longest + share * (trace.distinctKeys - longest)),
  );
}

describe.each(traces)("trace %s", (_name, read) => {
  test.each([0.02, 0.2, 2])(
    "ttl with %s of the span of the trace expires and evicts what an array of times does",
    async (share) => {
      const trace = await read();
      const seconds = (share * trace.arrivalNs.at(-1)!) / 1e9;
      for (const blocks of capacitiesOf(trace)) {
        const decisions = ours(trace, blocks, "ttl", { "ttl-s": seconds });
        expect(decisions, `${blocks} blocks`).toEqual(naive(trace, blocks, { ttlNs: seconds * 1e9 }));
        if (share < 0.1) expect(decisions.expired.length).toBeGreaterThan(0);
      }
    },
  );

  test("tinylfu stores what a list in LRU order with the same sketch does", async () => {
    const trace = await read();
    for (const blocks of capacitiesOf(trace)) {
      const expected = naive(trace, blocks, { sketch: new FrequencySketch(blocks) });
      expect(ours(trace, blocks, "tinylfu", {}), `${blocks} blocks`).toEqual(expected);
    }
  });
});

describe.each(traces)("trace %s", (_name, read) => {
  test("marconi without last states stores a request up to the point at which it branches off", async () => {
    const trace = await read();
    for (const blocks of capacitiesOf(trace)) {
      const decisions = ours(trace, blocks, "marconi", { "last-states": 0, alpha: 0 });
      expect(decisions, `${blocks} blocks`).toEqual(naive(trace, blocks, { earlier: new Set() }));
      expect(decisions.refused).toBeGreaterThan(0);
    }
  });
});

test("ttl with an endless time to live has the decisions of lru", async () => {
  const trace = await traces[0][1]();
  for (const blocks of capacitiesOf(trace))
    expect(ours(trace, blocks, "ttl", { "ttl-s": 1e9 })).toEqual(ours(trace, blocks, "lru", {}));
});

test("an estimate of a frequency sketch is at least the count since the last halving, up to 15", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(40), { maxLength: 159 }), (keys) => {
      const sketch = new FrequencySketch(16);
      const counts = new Map<number, number>();
      for (const key of keys) {
        sketch.add(key);
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      for (const [key, count] of counts) expect(sketch.estimate(key)).toBeGreaterThanOrEqual(Math.min(15, count));
    }),
  );
});

test("a frequency sketch halves its counts after ten times its capacity", () => {
  const sketch = new FrequencySketch(16);
  for (let i = 0; i < 12; i++) sketch.add(1);
  for (let i = 12; i < 159; i++) sketch.add(2);
  expect(sketch.estimate(1)).toBe(12);
  sketch.add(2);
  expect(sketch.estimate(1)).toBe(6);
  expect(sketch.estimate(2)).toBe(7);
});
