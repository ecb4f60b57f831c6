import { expect, test } from "vitest";
import { replayTrace } from "../../../core/replica/replay.ts";
import { readTrace, type Trace } from "../../../core/trace/trace.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../../../policies/registry.ts";
import { codingAgent } from "../../../traces/generators/coding-agent.ts";
import { fewShot } from "../../../traces/generators/few-shot.ts";
import { type Generator, generated, type OptionsOf } from "../../../traces/generators/generator.ts";
import { lruLoop } from "../../../traces/generators/lru-loop.ts";
import { rag } from "../../../traces/generators/rag.ts";
import { subAgents } from "../../../traces/generators/sub-agents.ts";
import { tenants } from "../../../traces/generators/tenants.ts";
import { treeOfThought } from "../../../traces/generators/tree-of-thought.ts";

const generate = <Kind extends Generator>(kind: Kind, options: OptionsOf<Kind>) => readTrace(generated(kind, options));

const keysOf = (trace: Trace, r: number) => trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]);

/** Leading blocks that two prompts have in common. */
function commonBlocks(trace: Trace, a: number, b: number): number {
  const [one, other] = [keysOf(trace, a), keysOf(trace, b)];
  let count = 0;
  while (count < one.length && count < other.length && one[count] === other[count]) count++;
  return count;
}

function hitRatio(trace: Trace, eviction: string, blocks: number | undefined): number {
  const { counters } = replayTrace(trace, {
    index: indexRegistry.get("hash-table"),
    eviction: evictionRegistry.get(eviction),
    allocator: allocatorRegistry.get("block"),
    scheduler: schedulerRegistry.get("naive"),
    blockTokens: trace.unitTokens,
    blocks,
    rules: {},
    seed: 1,
  }).cache;
  return counters.hitBlocks / counters.lookupBlocks;
}

test("few-shot: a task's examples are hit by each of its requests but the first, and nothing else is hit", async () => {
  const trace = await generate(fewShot, { requests: 3000, tasks: 20 });
  const { category, markedTokens } = trace.optional;
  const uses = new Map<number, { requests: number; blocks: number }>();
  for (let r = 0; r < trace.requestCount; r++) {
    const blocks = Math.floor(markedTokens![r] / 16);
    uses.set(category![r], { requests: (uses.get(category![r])?.requests ?? 0) + 1, blocks });
  }
  let hits = 0;
  for (const { requests, blocks } of uses.values()) hits += (requests - 1) * blocks;
  expect(hitRatio(trace, "unbounded", undefined)).toBeCloseTo(hits / trace.keys.length, 12);
  // Zipf with exponent 1: the first of 20 tasks has the share 1 ÷ (1 + 1/2 + … + 1/20) = 0.278.
  expect(uses.get(1)!.requests / 3000).toBeCloseTo(0.278, 1);
});

test("tree-of-thought: a problem has 1 + 2 + 4 + 4 requests, and the thoughts of a state have the same prompt", async () => {
  const options = { requests: 110, breadth: 2, depth: 3, beam: 2, problemsPerS: 0.001, instructionTokens: 160 };
  const trace = await generate(treeOfThought, options);
  const { session, parent } = trace.optional;
  for (let problem = 1; problem <= 10; problem++) {
    const rows = [...session!.keys()].filter((r) => session![r] === problem);
    expect(rows).toHaveLength(1 + 2 + 4 + 4);
    const states = [...new Set(rows.slice(1).map((r) => parent![r]))];
    expect(states).toHaveLength(5);
    for (const from of states) {
      const [one, other, ...more] = rows.filter((r) => parent![r] === from);
      expect(more).toEqual([]);
      expect(keysOf(trace, one)).toEqual(keysOf(trace, other));
      // The state is the prompt and the output of the request that completed it.
      expect(trace.inputTokens[one]).toBe(trace.inputTokens[from] + trace.outputTokens[from]);
      expect(commonBlocks(trace, one, from)).toBeGreaterThanOrEqual(Math.floor(trace.inputTokens[from] / 16));
    }
    expect(commonBlocks(trace, rows[0], 0)).toBe(problem === 1 ? keysOf(trace, 0).length : 10);
  }
});

test("rag: shuffled documents have fewer hits than sorted ones, with and without evictions", async () => {
  const [shuffled, sorted] = [
    await generate(rag, { requests: 2000, shuffled: 1 }),
    await generate(rag, { requests: 2000, shuffled: 0 }),
  ];
  expect(shuffled.inputTokens.length).toBe(sorted.inputTokens.length);
  for (const blocks of [undefined, 50_000]) {
    const [less, more] = [shuffled, sorted].map((trace) => hitRatio(trace, "lru", blocks));
    expect(more - less).toBeGreaterThan(0.05);
  }
});

test("coding-agent: a step extends the prompt before it, until compaction leaves only system prompt and tools", async () => {
  const options = { requests: 1500, contextTokens: 20_000, systemTokens: 2000, agents: 1, summaryTokens: 500 };
  const trace = await generate(codingAgent, options);
  const { parent, markedTokens, thinkNs } = trace.optional;
  const system = Math.floor(markedTokens![0] / 16);
  let compactions = 0;
  for (let r = 0; r < trace.requestCount; r++) {
    expect(trace.inputTokens[r]).toBeLessThanOrEqual(20_000);
    expect(commonBlocks(trace, r, 0)).toBeGreaterThanOrEqual(system);
    const before = parent![r];
    if (before < 0) continue;
    if (trace.inputTokens[r] > trace.inputTokens[before])
      expect(commonBlocks(trace, r, before)).toBeGreaterThanOrEqual(Math.floor(trace.inputTokens[before] / 16));
    else {
      compactions++;
      expect(commonBlocks(trace, r, before)).toBe(system);
    }
  }
  expect(compactions).toBeGreaterThan(20);
  const pauses = thinkNs!.filter((ns) => ns > 0).reduce((sum, ns, _, all) => sum + ns / all.length, 0) / 1e9;
  expect(pauses).toBeGreaterThan(0.95 * 4 + 0.05 * 90 - 3);
  expect(pauses).toBeLessThan(0.95 * 4 + 0.05 * 90 + 3);
});

test("sub-agents: they begin with the parent's context, and the parent continues when the last of them has ended", async () => {
  const options = { requests: 1200, inherited: 1, sessionsPerS: 0.01, steps: 2, children: 3, outputTokensPerS: 40 };
  const trace = await generate(subAgents, options);
  const { session, parent } = trace.optional;
  const endNs = (r: number) => trace.arrivalNs[r] + Math.round((trace.outputTokens[r] / 40) * 1e9);
  let [fanOuts, joins] = [0, 0];
  const childrenOf = new Map<number, number[]>();
  for (let r = 0; r < trace.requestCount; r++) {
    const before = parent![r];
    if (before < 0 || session![r] === session![before]) continue;
    const isNew = session!.indexOf(session![r]) === r;
    if (isNew) {
      fanOuts++;
      childrenOf.set(session![before], [...(childrenOf.get(session![before]) ?? []), session![r]]);
      expect(trace.arrivalNs[r]).toBe(endNs(before));
      expect(commonBlocks(trace, r, before)).toBeGreaterThanOrEqual(Math.floor(trace.inputTokens[before] / 16));
    } else {
      joins++;
      const children = childrenOf.get(session![r])!;
      const ends = children.map((child) => endNs(session!.lastIndexOf(child)));
      expect(trace.arrivalNs[r]).toBe(Math.max(...ends));
      childrenOf.delete(session![r]);
    }
  }
  expect(fanOuts / joins).toBeGreaterThan(2);
  expect(joins).toBeGreaterThan(80);
});

test("tenants: requests come in bursts, namespaces are separate, and scans lower the hit ratio of the others", async () => {
  const withScans = await generate(tenants, { requests: 6000 });
  const without = await generate(tenants, { requests: 6000, scanDocuments: 0 });
  const steady = await generate(tenants, { requests: 6000, scanDocuments: 0, burst: 1 });
  const { namespace, category, priority } = withScans.optional;
  expect(new Set(namespace)).toEqual(new Set([1, 2, 3, 4, 5, 6, 7, 8]));
  for (let r = 0; r < 6000; r++) if (category![r] === 2) expect([namespace![r], priority![r]]).toEqual([1, -1]);
  // Without bursts the counts of a Poisson process have the variance of their mean.
  expect(dispersion(steady)).toBeLessThan(1.5);
  expect(dispersion(without)).toBeGreaterThan(3);
  const interactiveHits = (trace: Trace) => {
    const blocks = new Set<number>();
    let [hits, all] = [0, 0];
    for (let r = 0; r < trace.requestCount; r++) {
      for (const key of keysOf(trace, r)) {
        const hit = blocks.delete(key);
        if (!hit && blocks.size === 6000) blocks.delete(blocks.values().next().value!);
        blocks.add(key);
        if (trace.optional.category![r] === 1) [hits, all] = [hits + (hit ? 1 : 0), all + 1];
      }
    }
    return hits / all;
  };
  expect(interactiveHits(without) - interactiveHits(withScans)).toBeGreaterThan(0.02);
});

/** Variance ÷ mean of the requests per 5 s. */
function dispersion({ arrivalNs }: Trace): number {
  const counts = new Float64Array(Math.floor(arrivalNs[arrivalNs.length - 1] / 5e9));
  for (const ns of arrivalNs) if (ns < counts.length * 5e9) counts[Math.floor(ns / 5e9)]++;
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  return counts.reduce((sum, count) => sum + (count - mean) ** 2, 0) / counts.length / mean;
}

test.each([1, 8])(
  "lru-loop: with prompts of %i blocks LRU hits nothing and the optimum nearly everything",
  async (promptBlocks) => {
    const trace = await generate(lruLoop, { requests: 4000, cacheBlocks: 400, promptBlocks });
    expect(trace.distinctKeys).toBe(400 + promptBlocks);
    expect(hitRatio(trace, "lru", 400)).toBe(0);
    expect(hitRatio(trace, "fifo", 400)).toBe(0);
    const loops = (4000 * promptBlocks) / trace.distinctKeys;
    expect(hitRatio(trace, "belady", 400)).toBeGreaterThan(0.9 * (1 - 1 / loops));
    expect(hitRatio(trace, "lru", 400 + promptBlocks)).toBeCloseTo(1 - 1 / loops, 2);
  },
);
