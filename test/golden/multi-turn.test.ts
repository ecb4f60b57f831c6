import { describe, expect, test } from "vitest";
import { audit } from "../../core/cache/audit.ts";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import { Request } from "../../core/cache/request.ts";
import type { IndexPlugin } from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { createCache, rulesFor } from "../../core/replica/compose.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import { Replica } from "../../core/replica/replica.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { indexRegistry } from "../../policies/registry.ts";
import { configOf, type OwnConfig, replayed } from "../support/replays.ts";
import {
  blockTokens,
  conversations,
  conversationTrace,
  holeLetters,
  holes,
  holeTrace,
  twins,
  twinTrace,
} from "./multi-turn-trace.ts";

// Every count here was worked out by hand from the rules' definitions before it was run.

type Own = Partial<Record<RuleName, RuleValue>>;
const limits = ["all", "l-1", "block-before-l"];
const publish = ["allocation", "step", "chunk", "finish"];
const duplicates = ["adopt", "keep", "swap", "replace"];
const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);

/** The indexes that store single published blocks and support these rules. */
function indexesWith(rules: Own): IndexPlugin[] {
  return indexRegistry.all.filter((index) => {
    if (index.storesNothing || index.unit !== undefined) return false;
    try {
      return rulesFor(index, rules) !== undefined;
    } catch {
      return false;
    }
  });
}

/** Hit tokens of every request, each served to its end before the next one is submitted. */
function hitsAlone(trace: Trace, index: string, rules: Own): number[] {
  return [...replayed(trace, { index, rules, blockTokens, audit: true }).requests.hitTokens];
}

/**
 * Hit tokens of every request when requests overlap: each arrives before the step that its arrival names, and enters it.
 * A step computes at most `tokens` of each prompt, running requests first. Also the number of cached blocks after each step.
 */
function hitsTogether(trace: Trace, tokens: number, own: OwnConfig) {
  const config = configOf(trace, { blockTokens, ...own });
  const columns = CacheReplay.blockKeys(config, trace);
  const cache = createCache(config);
  const hits = new Array<number>(trace.requestCount).fill(-1);
  const cached: number[] = [];
  const replica = new Replica({
    cache,
    generation: "step",
    listener: { admitted: ({ request, cachedTokens }) => void (hits[request.id] = cachedTokens) },
    scheduler: {
      plan(context) {
        for (const sequence of [...context.running]) expect(context.schedule(sequence, tokens)).toBe(true);
        while (context.firstWaiting) expect(context.admit(context.firstWaiting, tokens)).toBe(true);
      },
    },
  });
  for (let step = 0, r = 0; r < trace.requestCount || !replica.isIdle; step++) {
    for (; r < trace.requestCount && trace.arrivalNs[r] <= step; r++) {
      replica.submit(new Request(r, trace, r, columns), step);
    }
    const plan = replica.plan(step);
    audit(cache, replica.running);
    replica.commit(plan, { durationNs: 0 }, step);
    audit(cache, replica.running);
    cached.push(cache.index.blockCount);
  }
  return { hits, cached };
}

/** Column `at` of a table of rows. */
const column = (rows: readonly (readonly number[])[], at: number) => rows.map((row) => row[at]);

/*
 * match-limit and cache-generated, one request at a time, nothing evicted. Blocks are matched whole, so l-1 and
 * block-before-l are the same: ⌊(L − 1) ÷ 4⌋ blocks. A prompt stores ⌊L ÷ 4⌋ blocks, with its output of G tokens
 * ⌊(L + G − 1) ÷ 4⌋, as the last output token is never computed.
 */
describe("whole blocks, one request at a time", () => {
  const rows = [
    // cache-generated=false  true
    // all l-1     all l-1
    [0, 0, 0, 0], // A1: the cache is empty. Stores a0–a2, with its output (12 + 8 tokens) a3 and a4 too.
    [12, 8, 12, 8], // C1 = A1, L = 3·4: a0–a2; below L whole blocks end at 8. With its output it stores c3.
    [4, 4, 4, 4], // B1: a0; block 1 differs in its third token. Stores b1, with its output (11 + 5) b2 and b3.
    [12, 8, 12, 8], // A1 again, L = 3·4, like C1.
    [12, 12, 16, 16], // A1 resumed, L = 4·4 + 1: a0–a2, and a3 if the output was cached. Stores a3 as its prompt.
    [12, 12, 16, 16], // C2, L = 5·4: a0–a2, and c3 if the output was cached. Stores c3 and c4.
    [8, 8, 16, 16], // B2, L = 5·4 + 1: a0 and b1, and b2 and b3 if the output was cached. Stores b2–b4.
    [16, 16, 20, 20], // A2, L = 6·4 + 1: a0–a3 from "A1 resumed", and a4 only from A1's output. Stores a4 and a5.
    [24, 24, 24, 24], // A2 again, L = 6·4 + 1: a0–a5 end before L. a6 ends at 28, and A2 computed 25 + 2 tokens.
    [24, 24, 24, 24], // A3, L = 8·4: a0–a5. Stores a6 and a7.
    [24, 24, 24, 24], // A2 a third time: as before; its last token alone is no block.
    [8, 8, 8, 8], // B1 again, L = 2·4 + 3: a0 and b1.
  ];
  const totals = [156, 148, 176, 168];

  test("the totals are those of the turns", () => {
    expect(totals.map((_, at) => sum(column(rows, at)))).toEqual(totals);
  });

  for (const [g, generated] of ["false", "true"].entries()) {
    for (const limit of limits) {
      const rules = { "match-limit": limit, "cache-generated": generated, duplicates: "swap" };
      const expected = column(rows, 2 * g + (limit === "all" ? 0 : 1));
      for (const { name } of indexesWith(rules)) {
        test(`${name}, cache-generated=${generated}, match-limit=${limit}: ${sum(expected)} tokens`, () => {
          expect(hitsAlone(conversationTrace, name, rules)).toEqual(expected);
        });
      }
    }
  }
});

/*
 * match-limit where part of a block can be used (partial=copy), one request at a time, nothing evicted. After the whole
 * blocks the cached block with the longest common beginning with the prompt's next one, complete or not, is copied up to there.
 *
 *   all              up to L tokens
 *   l-1              up to L − 1 tokens
 *   block-before-l   of blocks that would end before token L if they were whole
 */
describe("partial matches, one request at a time: match-limit", () => {
  const rows = [
    // cache-generated=false   true
    // all l-1 before     all l-1 before
    [0, 0, 0, 0, 0, 0], // A1: the cache is empty.
    [12, 11, 8, 12, 11, 8], // C1 = A1, L = 12: a0–a2; three tokens of a2; a0 and a1, as a2 ends at 12.
    [6, 6, 6, 6, 6, 6], // B1, L = 11: a0 and the two tokens of the system prompt in a1, which ends at 8.
    [12, 11, 8, 12, 11, 8], // A1 again, like C1.
    [12, 12, 12, 17, 16, 16], // A1 resumed, L = 17: a0–a2. Cached output: a3 and one token of a4, which ends at 20.
    [14, 14, 14, 16, 16, 16], // C2, L = 20: a0–a2 and two tokens of a3. Cached output: c3 whole; nothing is below it.
    [8, 8, 8, 16, 16, 16], // B2, L = 21: a0 and b1, with the output b2 and b3; nothing is below them.
    [16, 16, 16, 20, 20, 20], // A2, L = 25: a0–a3, with the output a4; nothing is below them.
    [24, 24, 24, 24, 24, 24], // A2 again, L = 25: a0–a5; nothing is below them yet.
    [24, 24, 24, 24, 24, 24], // A3, L = 32: a0–a5. Stores a6 and a7.
    [25, 24, 24, 25, 24, 24], // A2 a third time, L = 25: a0–a5 and one token of a6, which ends at 28.
    [11, 10, 8, 11, 10, 8], // B1 again, L = 11: a0, b1 and three or two tokens of b2, which ends at 12.
  ];
  const totals = [164, 160, 152, 183, 178, 170];

  test("the totals are those of the turns", () => {
    expect(totals.map((_, at) => sum(column(rows, at)))).toEqual(totals);
  });

  for (const [g, generated] of ["false", "true"].entries()) {
    for (const [l, limit] of limits.entries()) {
      const rules = { partial: "copy", "match-limit": limit, "cache-generated": generated, duplicates: "swap" };
      const expected = column(rows, limits.length * g + l);
      for (const { name } of indexesWith(rules)) {
        test(`${name}, cache-generated=${generated}, match-limit=${limit}: ${sum(expected)} tokens`, () => {
          expect(hitsAlone(conversationTrace, name, rules)).toEqual(expected);
        });
      }
    }
  }
});

/*
 * publish, with overlapping requests, nothing evicted. A step computes one block of each prompt, or one token of each
 * output. A request that arrives in step n with h of its blocks cached computes block i in step n + i − h; the step that
 * ends its prompt generates the first output token, which the next step computes. A block matches
 *
 *   allocation   for requests after its own in the step that computes it
 *   step         in the next step
 *   chunk        in the next step if it is the prompt's, else once the request has finished
 *   finish       once the request has finished
 *
 * Ends of requests (cache-generated=true): A1 computes a0–a2 in steps 0–2, a3 in 3–6 and a4 in 7–10, which is its end.
 * C1 runs beside it and ends in step 6 (5 with allocation: it has one block less to compute). B1 ends in step 7, with
 * `finish` in 8. A2 computes a5 in step 12 and one token in 13, and ends in 15; without the cached output it
 * computes a4, a5 and one token in 12–14, and ends in 16.
 */
describe("requests that overlap: publish", () => {
  const rows = [
    // cache-generated=false     true
    // alloc. step chunk finish  alloc. step chunk finish
    [0, 0, 0, 0, 0, 0, 0, 0], // A1 in step 0.
    [4, 0, 0, 0, 4, 0, 0, 0], // C1 in step 0: a0, which A1 computes in the same step.
    [4, 4, 4, 0, 4, 4, 4, 0], // B1 in step 1: a0 is there since step 0, from A1 and C1, which have not finished.
    [12, 12, 12, 0, 12, 12, 12, 0], // A1 again in step 5: A1 has computed its prompt and decodes, as does C1.
    [12, 12, 12, 12, 16, 16, 12, 12], // A1 resumed in step 8: C1 has finished. a3 is output, computed in 6; A1 ends in 10.
    [12, 12, 12, 12, 16, 16, 16, 16], // C2 in step 9: C1 has finished.
    [8, 8, 8, 8, 16, 16, 16, 16], // B2 in step 10: B1 has finished.
    [16, 16, 16, 16, 20, 20, 20, 20], // A2 in step 12: A1 and "A1 resumed" have finished.
    [24, 24, 24, 16, 24, 24, 24, 20], // A2 again in step 14: a5 is computed, in 12 or 13, but A2 still decodes.
    [24, 24, 24, 24, 24, 24, 24, 24], // A3 in step 18: A2 has finished.
    [24, 24, 24, 24, 24, 24, 24, 24], // A2 a third time in step 22: no other request runs.
    [8, 8, 8, 8, 8, 8, 8, 8], // B1 again in step 23.
  ];
  // If outputs are not cached, `step` publishes nothing that `chunk` does not.
  const totals = [148, 144, 144, 120, 168, 164, 160, 140];

  test("the totals are those of the turns", () => {
    expect(totals.map((_, at) => sum(column(rows, at)))).toEqual(totals);
  });

  for (const [g, generated] of ["false", "true"].entries()) {
    for (const [p, value] of publish.entries()) {
      const rules = { publish: value, "cache-generated": generated, "match-limit": "all", duplicates: "swap" };
      const expected = column(rows, publish.length * g + p);
      for (const { name } of indexesWith(rules)) {
        test(`${name}, cache-generated=${generated}, publish=${value}: ${sum(expected)} tokens`, () => {
          expect(hitsTogether(conversationTrace, blockTokens, { index: name, rules }).hits).toEqual(expected);
        });
      }
    }
  }
});

/*
 * duplicates if a block is cached past a hole: FIFO evicts the beginning of a conversation before its later turns. Five
 * blocks, one request at a time. Cached blocks are written in the order of eviction; of two blocks of one request the deeper
 * one is evicted first. A tree never caches a block without the blocks before it, so this is for indexes that support adopt.
 */
describe("a block past a hole: duplicates", () => {
  const rows: readonly [hits: readonly number[], cached: string][] = [
    // hit blocks      cached afterwards
    // ad ke sw re     adopt keep  swap  replace
    [[0, 0, 0, 0], "a     a     a     a"],
    [[0, 0, 0, 0], "ax    ax    ax    ax"],
    [[0, 0, 0, 0], "axy   axy   axy   axy"],
    [[0, 0, 0, 0], "axyp  axyp  axyp  axyp"],
    [[1, 1, 1, 1], "axypb axypb axypb axypb"], // ab: a is a hit, which does not change its place.
    [[0, 0, 0, 0], "xypbz xypbz xypbz xypbz"], // z: evicts the oldest, a. b stays cached past a hole.
    // ab: a hole, then b. adopt references b and needs one block: evicts x. The others need two: evict x and y. Then keep has
    // two blocks b; swap has the old one, at its place, and a free block; replace the new one, at the end, and a free block.
    [[0, 0, 0, 0], "ypbza pbzba pbza  pzba"],
    [[1, 0, 0, 0], "ypbza bzbay pbzay pzbay"], // y: a hit with adopt. keep evicts p, the others have a free block.
    [[1, 0, 1, 1], "ypbza zbayp pbzay pzbay"], // p: a miss with keep, which evicts the old b for it.
    [[0, 0, 0, 0], "pbzaw baypw bzayw zbayw"], // w: evicts the oldest.
    [[0, 0, 0, 0], "bzawv aypwv zaywv baywv"], // v: evicts the oldest. With swap that is b, with replace z.
    [[2, 1, 1, 2], "bzawv apwvb aywvb baywv"], // ab.
  ];
  const totals = [20, 8, 12, 16];

  test("the totals are those of the requests", () => {
    const hits = rows.map(([blocks]) => blocks);
    expect(totals.map((_, at) => blockTokens * sum(column(hits, at)))).toEqual(totals);
    expect(rows.length).toBe(holes.length);
  });

  /** Cached content in the order in which FIFO evicts it. */
  function inOrder({ entries, index }: KvCache): string {
    const { createdAt, depth, key } = entries.columns;
    return [...index.blocks()]
      .sort((p, q) => createdAt[p] - createdAt[q] || depth[q] - depth[p])
      .map((block) => holeLetters[key[block]])
      .join("");
  }

  for (const { name } of indexesWith({ duplicates: "adopt" })) {
    for (const [at, value] of duplicates.entries()) {
      test(`${name}, duplicates=${value}: ${totals[at]} tokens`, () => {
        const rules = { duplicates: value, "match-limit": "all", "free-order": "reverse", publish: "allocation" };
        const own = { index: name, policy: "fifo", blocks: 5, blockTokens, rules, audit: true };
        const replay = new CacheReplay(configOf(holeTrace, own));
        const seen = holes.map((_, r) => {
          replay.feed(holeTrace, undefined, r, r + 1);
          const { requests, cache } = replay.result();
          return [requests.hitBlocks[r], inOrder(cache)];
        });
        expect(seen).toEqual(rows.map(([hits, cached]) => [hits[at], cached.split(/ +/)[at]]));
        expect(replay.result().cache.counters.hitTokens).toBe(totals[at]);
      });
    }
  }
});

/*
 * duplicates where two requests compute the same at the same time: abc and abd in one step, with publish=step. Seven
 * blocks, LRU. abc ends before abd publishes.
 *
 *   swap      abd references abc's a and b, its own are freed. Order c d b a: with x and y six blocks, nothing is evicted.
 *   replace   abc's a and b are freed, abd's stay cached; the rest as with swap.
 *   keep      a and b are cached twice. Order c b a d b a and a free block: x is stored there, y evicts c, c, which is requested
 *             again, evicts d, and d evicts the second b.
 *   adopt     as keep: nothing is past a hole.
 */
describe("the same prefix at the same time: duplicates", () => {
  const shared = { hits: [0, 0, 0, 0, 12, 12], cached: [4, 5, 6, 6, 6] };
  const twice = { hits: [0, 0, 0, 0, 8, 8], cached: [6, 7, 7, 7, 7] };
  const outcomes: Record<string, typeof shared> = { adopt: twice, keep: twice, swap: shared, replace: shared };

  for (const value of duplicates) {
    const rules = { duplicates: value, publish: "step", "match-limit": "all", "free-order": "reverse" };
    const expected = outcomes[value];
    for (const { name } of indexesWith(rules)) {
      test(`${name}, duplicates=${value}: ${sum(expected.hits)} tokens`, () => {
        expect(expected.hits.length).toBe(twins.length);
        const own = { index: name, blocks: 7, rules };
        expect(hitsTogether(twinTrace, Number.POSITIVE_INFINITY, own)).toEqual(expected);
      });
    }
  }
});

/** An index is in the tables of the values that it supports; a tree, which stores content once, supports only swap. */
test.each(indexesWith({}))("$name is in every table whose rules it supports", (index) => {
  const rules = { "match-limit": limits, "cache-generated": ["false", "true"], publish, duplicates };
  const lacks = Object.entries(rules).flatMap(([rule, values]) =>
    values.filter((value) => !indexesWith({ [rule]: value }).includes(index)).map((value) => `${rule}=${value}`),
  );
  expect([[], ["duplicates=adopt", "duplicates=keep", "duplicates=replace"]]).toContainEqual(lacks);
});

test("lengths are those of the names", () => {
  for (const { name, prompt } of conversations) expect(name).toMatch(new RegExp(`L = ${prompt.length}$`));
});
