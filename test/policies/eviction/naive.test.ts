import { describe, expect, test } from "vitest";
import { evictionWith } from "../../../core/replica/compose.ts";
import { BlockKeys } from "../../../core/trace/content.ts";
import { readTrace, type Trace } from "../../../core/trace/trace.ts";
import { evictionRegistry } from "../../../policies/registry.ts";
import { chatSource } from "../../../traces/generators/chat.ts";
import { generated } from "../../../traces/generators/generator.ts";
import { fewShot, subAgents } from "../../../traces/generators/index.ts";
import { openTrace } from "../../../traces/open.ts";
import { hasRecordedTraces, recordedTracePath } from "../../support/recordings.ts";
import { replayed } from "../../support/replays.ts";
import { type Decisions, type NaivePolicy, naiveDecisions } from "./naive-cache.ts";
import * as kv from "./naive-kv-policies.ts";
import * as naive from "./naive-policies.ts";

// Each policy makes the decisions of an independent implementation over plain arrays: hits, victims in order, cached blocks.

const { byScores } = naive;

/** By name of the policy; `capacity` is in blocks. */
const policies: Record<string, (capacity: number) => NaivePolicy> = {
  "2q": naive.twoQueues,
  arc: naive.arc,
  clock: naive.clock,
  "cost-aware": naive.costAware,
  fifo: () => byScores({ scores: ({ insertedAt, place }) => [insertedAt, -place] }),
  filo: () => byScores({ scores: ({ insertedAt, place }) => [-insertedAt, -place] }),
  gdsf: naive.gdsf,
  "hits-per-token": () => byScores({ scores: ({ hits, tokens }) => [hits / tokens] }),
  hyperbolic: naive.hyperbolic,
  lfu: () => byScores({ scores: ({ hits }) => [hits] }),
  "lfu-lifetime": naive.lfuLifetime,
  lirs: naive.lirs,
  lru: () => byScores({ scores: () => [] }),
  "lru-deepest": () => byScores({ scores: ({ usedAt, place }) => [usedAt, -place] }),
  marconi: kv.marconi,
  mru: () => byScores({ scores: ({ usedAt, place }) => [-usedAt, -place] }),
  "random-leaf": kv.randomLeaf,
  "s3-fifo": naive.s3Fifo,
  sieve: naive.sieve,
  slru: () => byScores({ scores: ({ hits }) => [hits >= 2 ? 1 : 0] }),
  "t-lru": () => kv.tLru(),
  "w-tinylfu": kv.wTinylfu,
  "workload-aware": kv.workloadAware,
};

/** Policies with options in their names. */
const withOptions: Record<string, (capacity: number) => NaivePolicy> = {
  "t-lru:threshold-tokens=1500:next-tokens=300": () => kv.tLru(1500, 300),
  "marconi:alpha=0.5": (capacity) => kv.marconi(capacity, 0.5),
  "marconi:bootstrap=1": (capacity) => kv.marconi(capacity, undefined, 1),
};

/** Bounds, random choices, orders by priority, and policies with hooks or signals have naive implementations of their own, in test/golden and beside this file. */
const elsewhere = [
  ...[
    "belady",
    "continuum",
    "kvflow",
    "priority",
    "queue-lru",
    "random",
    "retention",
    "session-refs",
    "tinylfu",
    "ttl",
  ],
  "unbounded",
];

test("every policy has an implementation over plain arrays", () => {
  expect([...Object.keys(policies), ...elsewhere].sort()).toEqual(evictionRegistry.all.map(({ name }) => name));
});

/** Eight capacities in blocks; with the smallest one the longest prompts are refused. */
function capacitiesOf(trace: Trace, blockTokens: number): number[] {
  const { distinct } = new BlockKeys({ unitTokens: trace.unitTokens, blockTokens }).of(trace);
  const longest = Math.max(...trace.inputTokens) / blockTokens;
  return [-0.02, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6].map((share) =>
    Math.floor(longest + share * (distinct - longest)),
  );
}

function decisionsOf(trace: Trace, policy: string, blockTokens: number, blocks: number): Decisions {
  const [name, ...given] = policy.split(":");
  const options = Object.fromEntries(
    given.map((option) => option.split("=")).map(([key, value]) => [key, Number(value)]),
  );
  const eviction = evictionWith(evictionRegistry.get(name), options);
  const { requests, log, cache } = replayed(trace, { eviction, blocks, blockTokens, events: true });
  const victims: number[] = [];
  for (const event of log!.events()) if (event.name === "evict") victims.push(event.content);
  const cached = [...cache.index.blocks()].map((block) => cache.entries.columns.key[cache.index.entryOf(block)]);
  return { hits: [...requests.hitBlocks], victims, cached: cached.sort((a, b) => a - b) };
}

type Source = readonly [name: string, read: () => Promise<Trace>];

const generatedTraces: Source[] = [
  [
    "chat sessions",
    () => readTrace(chatSource({ requests: 130, seed: 3, unitTokens: 128, systemPrompts: 8, sessionsPerS: 0.5 })),
  ],
  ["few-shot prompts", () => readTrace(generated(fewShot, { requests: 130, seed: 5, unitTokens: 256 }))],
  ["sub-agents", () => readTrace(generated(subAgents, { requests: 200, seed: 7, unitTokens: 512 }))],
];

const recorded: Source[] = [
  ["mooncake/conversation_trace.jsonl.gz", 40],
  ["agents/taubench-0c6629b0.jsonl.gz", 120],
  ["agents/miniswe-06392522.jsonl.gz", 14],
].map(([name, limit]) => [
  `${name}, its first requests`,
  async () => readTrace(await openTrace([recordedTracePath(String(name))]), Number(limit)),
]);

describe.each([...generatedTraces, ...(hasRecordedTraces ? recorded : [])])("%s", (_name, read) => {
  const trace = read();
  test.each(Object.entries({ ...policies, ...withOptions }))("%s", async (name, naivePolicy) => {
    const given = await trace;
    const blockTokens = given.unitTokens === 1 ? 16 : given.unitTokens;
    for (const blocks of capacitiesOf(given, blockTokens)) {
      const expected = naiveDecisions(given, blockTokens, blocks, naivePolicy(blocks));
      expect(decisionsOf(given, name, blockTokens, blocks), `${blocks} blocks`).toEqual(expected);
    }
  });
});

test("workload-aware: equal session ids of two namespaces are different sessions", async () => {
  const chats = await readTrace(
    chatSource({ requests: 130, seed: 3, unitTokens: 128, systemPrompts: 8, sessionsPerS: 0.5 }),
  );
  const { session } = chats.optional;
  const namespace = session!.map((number) => 1 + (number % 2));
  const trace = { ...chats, optional: { ...chats.optional, namespace, session: session!.map((n) => (n + 1) >> 1) } };
  const renumbered = { ...chats, optional: { ...chats.optional, namespace } };
  for (const blocks of capacitiesOf(trace, 128)) {
    const expected = naiveDecisions(trace, 128, blocks, kv.workloadAware());
    expect(decisionsOf(trace, "workload-aware", 128, blocks), `${blocks} blocks`).toEqual(expected);
    expect(naiveDecisions(renumbered, 128, blocks, kv.workloadAware())).toEqual(expected);
  }
});
