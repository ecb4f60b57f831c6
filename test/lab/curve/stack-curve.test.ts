import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Counters } from "../../../core/cache/counters.ts";
import type { RuleName, RuleValue } from "../../../core/plugins/rules.ts";
import { seededRandom } from "../../../core/random.ts";
import { blockKeysFor, rulesFor } from "../../../core/replica/compose.ts";
import { replayTrace } from "../../../core/replica/replay.ts";
import type { BlockColumns } from "../../../core/trace/content.ts";
import type { Trace } from "../../../core/trace/trace.ts";
import { stackOrder } from "../../../lab/curve/stack-algorithm.ts";
import { StackCurve } from "../../../lab/curve/stack-curve.ts";
import { openTrace } from "../../../lab/input.ts";
import { traceOf, type Workload, workloads } from "../../../laws/workloads.ts";
import { isLong, runs } from "../../laws/all-plugins.ts";
import { hasRecordedTraces, recordedTracePath } from "../../support/recordings.ts";
import { configOf, type OwnConfig } from "../../support/replays.ts";

/** The counters from which hit ratios follow. */
const counterNames = [
  ...(["lookups", "lookupBlocks", "lookupTokens", "fullLookupBlocks", "hitBlocks", "hitTokens"] as const),
  ...([
    "fullHitBlocks",
    "residentBlocks",
    "blockRatioSum",
    "tokenRatioSum",
    "refusedRequests",
    "refusedTokens",
  ] as const),
];

const picked = (counters: Counters) => Object.fromEntries(counterNames.map((name) => [name, counters[name]]));

/** The counters of the curve by size, in one pass over the batches. */
function curveOf(batches: readonly Trace[], own: OwnConfig, sizes: readonly number[]): Counters[] {
  const config = configOf(batches[0], own);
  const order = stackOrder(config)!;
  const rules = rulesFor(config.index, config.rules);
  const curve = new StackCurve({ order, blockTokens: config.blockTokens, rules, sizes, warmup: config.warmup ?? 0 });
  const keys = blockKeysFor(config, batches[0].unitTokens, { lateNamespaces: true });
  for (const batch of batches) curve.add(batch, keys.of(batch));
  return curve.counters();
}

function columnsOf(trace: Trace, own: OwnConfig): BlockColumns {
  const config = configOf(trace, own);
  return blockKeysFor(config, trace.unitTokens, { lateNamespaces: true }).of(trace);
}

interface Drawn {
  readonly workload: Workload;
  readonly policy: string;
  readonly blockUnits: number;
  readonly warmup: number;
  readonly batch: number;
  readonly rules: Partial<Record<RuleName, RuleValue>>;
}

const anyIndex = {
  publish: fc.constantFrom("allocation", "step", "chunk", "finish"),
  "free-order": fc.constantFrom("reverse", "forward"),
  reserve: fc.constantFrom("grow", "grow", "worst-case"),
  "failed-admission": fc.constantFrom("unchanged", "evicts"),
  "full-hit": fc.constantFrom("recompute-last", "rewrite-last"),
  share: fc.constantFrom("all", "all", "session"),
};

const rulesByIndex = {
  "hash-table": fc.record({
    ...anyIndex,
    "match-limit": fc.constantFrom("all", "all", "l-1", "block-before-l"),
    "drop-blocks": fc.constantFrom(0, 0, 1),
  }),
  "block-trie": fc.record({ ...anyIndex, victims: fc.constantFrom("leaf", "leaf", "any") }),
  "radix-tree": fc.record({ ...anyIndex, "victim-unit": fc.constantFrom("tail", "block") }),
};
type IndexName = keyof typeof rulesByIndex;
const indexNames = Object.keys(rulesByIndex) as IndexName[];

const drawn = (index: IndexName): fc.Arbitrary<Drawn> =>
  fc.record({
    workload: workloads({ maxRequests: 16 }),
    policy: fc.constantFrom("lru", "lru", "lru-deepest"),
    blockUnits: fc.integer({ min: 1, max: 2 }),
    warmup: fc.constantFrom(0, 0, 1),
    batch: fc.constantFrom(3, 100),
    rules: rulesByIndex[index] as fc.Arbitrary<Drawn["rules"]>,
  });

/** Larger than the content of a drawn workload, but for a few. */
const sizes = [...Array.from({ length: 20 }, (_, i) => i + 1), 25, 40];

/** Fails unless the curve of one pass has the counters of a replay at every size; returns them. */
function expectReplays(index: IndexName, { workload, blockUnits, policy, rules, warmup, batch }: Drawn): Counters[] {
  const [trace] = traceOf(workload, undefined, { signals: true });
  const { requestCount, unitTokens } = trace;
  const own = { index, policy, rules, blockTokens: blockUnits * unitTokens, warmup: requestCount > 1 ? warmup : 0 };
  const config = configOf(trace, own);
  const points = curveOf(traceOf(workload, batch, { signals: true }), own, sizes);
  const columns = columnsOf(trace, own);
  sizes.forEach((blocks, i) => {
    const { counters } = replayTrace(trace, { ...config, blocks }, columns).cache;
    expect({ blocks, ...picked(points[i]) }).toEqual({ blocks, ...picked(counters) });
  });
  return points;
}

/** A block trie that evicts inner blocks first, each with its descendants, has no stack. */
const isStack = (index: IndexName, { workload, policy, rules }: Drawn) =>
  stackOrder(configOf(traceOf(workload)[0], { index, policy, rules })) !== undefined;

describe("the curve of one pass has the hits of a replay at every size", () => {
  test.each(indexNames)("%s", (index) => {
    let limited = 0;
    let refusing = 0;
    const check = (one: Drawn) => {
      fc.pre(isStack(index, one));
      const points = expectReplays(index, one);
      if (points[4].hitBlocks < points[sizes.length - 1].hitBlocks) limited++;
      if (points[4].refusedRequests > 0) refusing++;
    };
    fc.assert(fc.property(drawn(index), check), { numRuns: runs(50) });
    expect(Math.min(limited, refusing)).toBeGreaterThan(10);
  });
});

test("a curve that ignores the private blocks of requests is detected", () => {
  const check = (one: Drawn) => {
    fc.pre(isStack("hash-table", one));
    const { workload, blockUnits, policy, rules } = one;
    const [trace] = traceOf(workload, undefined, { signals: true });
    const own = { policy, rules, blockTokens: blockUnits * trace.unitTokens };
    const columns = columnsOf(trace, own);
    const config = configOf(trace, own);
    const whole = trace.inputTokens.map((tokens, r) => Math.min(tokens, columns.promptBlocks[r] * config.blockTokens));
    const curve = new StackCurve({
      ...config,
      order: stackOrder(config)!,
      rules: rulesFor(config.index, rules),
      sizes,
    });
    curve.add({ ...trace, inputTokens: whole }, columns);
    const hits = sizes.map((blocks) => replayTrace(trace, { ...config, blocks }, columns).cache.counters.hitBlocks);
    expect(curve.counters().map(({ hitBlocks }) => hitBlocks)).toEqual(hits);
  };
  expect(() => fc.assert(fc.property(drawn("hash-table"), check), { numRuns: 200, endOnFailure: true })).toThrow(
    "Property failed",
  );
});

test("sizes that refuse a request go on without it", () => {
  // With 3 blocks the request of 4 is refused, and a, b and c remain cached.
  const prompts = [
    [0, 1, 2],
    [3, 4, 5, 6],
    [0, 1, 2],
  ];
  const request = { namespace: 0, output: [9], maxOutputTokens: 1, markedTokens: 0 };
  const trace = traceOf({ unitTokens: 1, requests: prompts.map((prompt, id) => ({ ...request, id, prompt })) });
  const points = curveOf(trace, { blockTokens: 1 }, [2, 3, 4, 6, 7]);
  expect(points.map(({ hitBlocks }) => hitBlocks)).toEqual([0, 3, 0, 2, 3]);
  expect(points.map(({ refusedRequests }) => refusedRequests)).toEqual([3, 1, 0, 0, 0]);
});

test.each([
  ["fifo in a hash table", { policy: "fifo" }],
  ["a sorted list", { index: "sorted-list" }],
  ["cached outputs", { rules: { "cache-generated": "true" } }],
  ["whole nodes of a radix tree", { index: "radix-tree", rules: { "victim-unit": "node" } }],
  [
    "inner blocks of a trie before their descendants",
    { index: "block-trie", rules: { victims: "any", "free-order": "forward" } },
  ],
  ["hits that are limited in a tree", { index: "radix-tree", rules: { "match-limit": "l-1" } }],
] as [string, OwnConfig][])("%s: no stack", (_, own) => {
  const [trace] = traceOf({
    unitTokens: 1,
    requests: [{ id: 0, namespace: 0, prompt: [1], output: [1], maxOutputTokens: 1, markedTokens: 0 }],
  });
  expect(stackOrder(configOf(trace, own))).toBeUndefined();
});

/** The traces of `KVLAB_LONG=1`, with their block size and the requests that are read. */
const recorded: [file: string, blockTokens: number, limit: number][] = [
  ["mooncake/conversation_trace.jsonl.gz", 512, 20_000],
  ["sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz", 16, 1000],
  ["agents/taubench-0c6629b0.jsonl.gz", 16, 1000],
  ["weka/weka_710_rle.jsonl.gz", 512, 1000],
];

describe.runIf(hasRecordedTraces && isLong)("recorded traces at 200 random sizes", () => {
  test.each(recorded)("%s", { timeout: 3_600_000 }, async (file, blockTokens, limit) => {
    const { trace } = await openTrace([recordedTracePath(file)], { limit });
    const columns = columnsOf(trace, { blockTokens });
    const [seed] = fc.sample(fc.nat(), 1);
    const chance = seededRandom(seed);
    const most = Math.log(1.1 * columns.distinct);
    const drawn = new Set<number>();
    while (drawn.size < Math.min(200, 0.9 * columns.distinct)) drawn.add(Math.floor(Math.exp(most * chance.unit())));
    const random = [...drawn].sort((a, b) => a - b);
    for (const index of indexNames) {
      const own = { index, blockTokens };
      const points = curveOf([trace], own, random);
      random.forEach((blocks, i) => {
        const { counters } = replayTrace(trace, { ...configOf(trace, own), blocks }, columns).cache;
        expect({ seed, index, blocks, ...picked(points[i]) }).toEqual({ seed, index, blocks, ...picked(counters) });
      });
    }
    console.info(`${file}: ${trace.requestCount} requests, ${random.length} sizes, seed ${seed}`);
  });
});
