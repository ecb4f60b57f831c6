import { beforeAll, describe, expect, test } from "vitest";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { replayed } from "../support/replays.ts";
import { goldenCapacities, goldenTrace } from "./golden-trace.ts";

// Hits of the eviction orders of SGLang, vLLM v0 and TensorRT-LLM, compared with naive caches that are arrays of blocks and are
// searched linearly; then the counts themselves, so that no change is missed.

let plain: Trace;
/** The same requests with priorities and retention. */
let graded: Trace;
let prompts: number[][];
let capacities: number[];

const priorities = [0, 3, 150, -2, 40, 3, 50, 99];
/** In seconds; the trace has a few requests per second, and a conversation's next one after about a minute. */
const retentionS = [0, 5, 20, 0, 60];

beforeAll(async () => {
  plain = await goldenTrace();
  const rows = Array.from({ length: plain.requestCount }, (_, r) => r);
  graded = {
    ...plain,
    optional: {
      ...plain.optional,
      priority: Int32Array.from(rows, (r) => priorities[(r * 5 + (r >> 3)) % priorities.length]),
      retentionNs: Float64Array.from(rows, (r) => 1e9 * retentionS[(r * 3 + (r >> 2)) % retentionS.length]),
    },
  };
  prompts = rows.map((r) => [...plain.keys.subarray(plain.keyStart[r], plain.keyStart[r + 1])]);
  capacities = goldenCapacities(plain);
});

interface Stored {
  readonly key: number;
  /** Index in its prompt. */
  readonly place: number;
  readonly madeAt: number;
  usedAt: number;
  usedNs: number;
  hits: number;
  priority: number;
  retentionNs: number;
  /** Position among the entries that were appended to a queue. */
  turn: number;
}

/** A request that uses a block, and the time. */
interface User {
  readonly priority: number;
  readonly retentionNs: number;
  readonly nowNs: number;
}

interface Naive {
  /** Scores of the evictable blocks; the lexicographically smallest one is evicted. */
  scores(block: Stored, nowNs: number): readonly number[];
  made?(block: Stored, user: User): void;
  hit?(block: Stored, user: User): void;
  /** A request is about to be admitted. */
  begin?(cache: readonly Stored[], nowNs: number): void;
  letGo?(block: Stored): void;
}

type Rules = Partial<Record<RuleName, RuleValue>>;
const forward: Rules = { "free-order": "forward" };

/** Hit blocks of every request, one at a time; a prompt that does not fit is refused. */
function naiveHits(trace: Trace, capacity: number, naive: Naive, rules: Rules): number[] {
  let cache: Stored[] = [];
  const { priority, retentionNs } = trace.optional;
  return prompts.map((prompt, now) => {
    const nowNs = trace.arrivalNs[now];
    const user = { nowNs, priority: priority?.[now] ?? 0, retentionNs: retentionNs?.[now] ?? 0 };
    naive.begin?.(cache, nowNs);
    if (prompt.length > capacity) return 0;
    const inCache = new Map(cache.map((block) => [block.key, block]));
    const firstMissing = prompt.findIndex((key) => !inCache.has(key));
    const hits = firstMissing < 0 ? prompt.length : firstMissing;
    for (const key of prompt.slice(0, hits)) {
      const block = inCache.get(key)!;
      block.hits++;
      naive.hit?.(block, user);
    }
    const missing = prompt.flatMap((key, place) => (inCache.has(key) ? [] : [{ key, place }]));
    while (cache.length + missing.length > capacity) {
      const idle = cache.filter(({ key }) => !prompt.includes(key));
      const scored = idle.map((block) => ({ block, score: naive.scores(block, nowNs) }));
      const worst = scored.reduce((a, b) => (compare(b.score, a.score) < 0 ? b : a));
      cache = cache.filter((block) => block !== worst.block);
    }
    for (const { key, place } of missing) {
      const fresh = { key, place, madeAt: now, usedAt: 0, usedNs: 0, hits: 0, priority: 0, retentionNs: 0, turn: 0 };
      naive.made?.(fresh, user);
      cache.push(fresh);
    }
    const used = cache.filter(({ key }) => prompt.includes(key)).sort((a, b) => a.place - b.place);
    for (const block of rules["free-order"] === "forward" ? used : used.reverse()) {
      block.usedAt = now;
      block.usedNs = nowNs;
      naive.letGo?.(block);
    }
    return hits;
  });
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((score, i) => score !== b[i]);
  return at < 0 ? 0 : a[at] - b[at];
}

const clamp = (priority: number, most: number) => Math.min(most, Math.max(0, priority));
const hasExpired = ({ usedNs, retentionNs }: Stored, nowNs: number) => retentionNs > 0 && nowNs - usedNs >= retentionNs;

function sglangPriority(order: (block: Stored) => number): Naive {
  const forEver = (ns: number) => ns || Number.POSITIVE_INFINITY;
  return {
    scores: (block, nowNs) => [hasExpired(block, nowNs) ? 0 : block.priority, block.usedAt, order(block)],
    made(block, { priority, retentionNs }) {
      Object.assign(block, { priority: clamp(priority, 99), retentionNs });
    },
    hit(block, user) {
      const offered = [clamp(user.priority, 99), forEver(user.retentionNs)];
      if (compare(offered, [block.priority, forEver(block.retentionNs)]) <= 0) return;
      Object.assign(block, { priority: offered[0], retentionNs: user.retentionNs });
    },
  };
}

function tensorRtRetention(): Naive {
  let turns = 0;
  const setPriority = (block: Stored, { priority, retentionNs }: User) => {
    if (priority !== 0) block.priority = clamp(priority, 100);
    block.retentionNs = retentionNs;
  };
  return {
    scores: ({ priority, turn }) => [priority, turn],
    made(block, user) {
      block.priority = 35;
      setPriority(block, user);
    },
    hit: setPriority,
    begin(cache, nowNs) {
      const over = cache.filter((block) => block.priority !== 35 && hasExpired(block, nowNs));
      over.sort((a, b) => a.usedNs + a.retentionNs - b.usedNs - b.retentionNs || a.turn - b.turn);
      for (const block of over) Object.assign(block, { priority: 35, retentionNs: 0, turn: turns++ });
    },
    letGo(block) {
      block.turn = turns++;
    },
  };
}

/** By name: the order, depending on the rule `free-order`, and its hits at five sizes. */
const orders: [name: string, naive: (order: (block: Stored) => number) => Naive, golden: string][] = [
  ["lfu", (order) => ({ scores: (b) => [b.hits, b.usedAt, order(b)] }), "688 3246 4009 5401 6162"],
  ["mru", (order) => ({ scores: (b) => [-b.usedAt, order(b)] }), "482 1208 1916 3420 5040"],
  ["filo", (order) => ({ scores: (b) => [-b.madeAt, order(b)] }), "513 2622 3983 5203 6010"],
  ["slru", (order) => ({ scores: (b) => [b.hits >= 2 ? 1 : 0, b.usedAt, order(b)] }), "651 2710 3819 5381 6146"],
  ["lru-deepest", () => ({ scores: (b) => [b.usedAt, -b.place] }), "558 2203 3362 5139 6152"],
  ["priority", sglangPriority, "578 2629 4011 5288 6090"],
  ["retention", tensorRtRetention, "525 1667 2295 4020 5297"],
];

const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);

describe.each(orders)("%s", (policy, naive, golden) => {
  test.each([
    ["deepest block first", {}],
    ["first block first", forward],
  ])("has the hits of an array of blocks, request by request, %s", (_name, rules) => {
    const order = ({ place }: Stored) => (rules === forward ? place : -place);
    for (const blocks of capacities) {
      const hits = [...replayed(graded, { policy, blocks, rules }).requests.hitBlocks];
      expect(hits, `${blocks} blocks`).toEqual(naiveHits(graded, blocks, naive(order), rules));
    }
  });

  test("has its golden counts", () => {
    const hits = capacities.map((blocks) => sum([...replayed(graded, { policy, blocks }).requests.hitBlocks]));
    expect(hits.join(" ")).toBe(golden);
  });
});

test.each(["priority", "retention"])("%s is equivalent to lru without priorities", (policy) => {
  for (const blocks of capacities)
    expect(replayed(plain, { policy, blocks }).requests.hitBlocks).toEqual(
      replayed(plain, { policy: "lru", blocks }).requests.hitBlocks,
    );
});
