import { describe, expect, test } from "vitest";
import { EventKind } from "../../../core/log/events.ts";
import type { SchedulerContext } from "../../../core/plugins/index.ts";
import type { LiveCache, RequestOptions } from "../../support/live-cache.ts";
import { everyPreset, liveOf, presetNamed, rulesOf, serveAlone } from "./presets.ts";

/*
 * Caches without a free block. A letter is a token; a block has two of them, or one in the token trees. By default an output
 * has one token, which is never computed. Cached content is written as text: "aabb" is the block bb after aa. For pools every
 * prompt is marked as a whole.
 */

const blockTokensOf = (name: string) => Math.min(2, presetNamed(name).blockTokens);
const cacheOf = (name: string, tokens: number) => {
  const blockTokens = blockTokensOf(name);
  return liveOf(name, { blockTokens, blocks: tokens / blockTokens });
};

const marked = (prompt: string, options: RequestOptions = {}): RequestOptions => ({
  markedTokens: prompt.length,
  ...options,
});

/** Evicted content since event `from` of the log, in order; a path is evicted from its end. */
function evictionsSince({ log }: LiveCache, from: number) {
  const { kind, key, block } = log.columns();
  return Array.from({ length: kind.length - from }, (_, i) => from + i)
    .filter((at) => kind[at] === EventKind.evict)
    .map((at) => ({ key: key[at], block: block[at] }));
}

/** Serves requests one after the other; returns the content that the last one evicted. */
function lastEvicts(cache: LiveCache, prompts: string): string {
  let from = 0;
  for (const prompt of prompts.split(" ")) {
    from = cache.log.count;
    serveAlone(cache, prompt, marked(prompt));
  }
  return evictionsSince(cache, from)
    .map(({ key }) => cache.textOf(key))
    .join(" ");
}

/** Hit tokens of extensions of these prompts; for roseinfer of the prompts themselves. */
const found = (name: string, cache: LiveCache, prompts: string): string =>
  prompts
    .split(" ")
    .map((prompt) => cache.hits(name === "roseinfer" ? prompt : `${prompt}!`, marked(prompt)))
    .join(" ");

/** Requests that fill the cache, the content that the last one evicts, the hits afterwards, and the tokens of free blocks. */
interface Row {
  readonly names: string;
  readonly tokens: number;
  readonly served: string;
  readonly evicts: string;
  readonly finds: Readonly<Record<string, number>>;
  readonly free: number;
}

function check({ names, tokens, served, evicts, finds, free }: Row): void {
  for (const name of names.split(" ")) {
    const cache = cacheOf(name, tokens);
    const evicted = lastEvicts(cache, served);
    const prompts = Object.keys(finds);
    const seen = { evicted, finds: found(name, cache, prompts.join(" ")), free: cache.cache.freeBlocks };
    const expected = { evicted: evicts, finds: Object.values(finds).join(" "), free: free / blockTokensOf(name) };
    expect(seen, name).toEqual(expected);
  }
}

/** Every preset is in exactly one row of a table. */
const inAll = (rows: readonly Row[]) => expect(rows.flatMap(({ names }) => names.split(" ")).sort()).toEqual(names);
const names = everyPreset.map(([name]) => name);

const queues = "nano-vllm vllm vllm@0.19";
const v0 = "vllm-v0 vllm-v0@0.8";
const sglangs = "mini-sglang sglang sglang@2501";
const tries = "lmdeploy trt-llm turbomind";

test("the least recently used entry is evicted from its end, by the system's unit", () => {
  const blocks = { tokens: 12, served: "aabbcc aaddee zz xxyy" };
  const runs = { tokens: 8, served: "abcd abef zz xyw" };
  const rows: readonly Row[] = [
    // Two blocks are needed: the two deepest of the first prompt are evicted; the second prompt uses its beginning.
    {
      names: `${queues} ${tries} prefix-trie ${v0}`,
      ...blocks,
      evicts: "aabbcc aabb",
      finds: { aabbcc: 2, aaddee: 6, zz: 2, xxyy: 4 },
      free: 0,
    },
    // Whole prompts share nothing: the first one was evicted for zz, and left two blocks for xxyy.
    {
      names: "roseinfer prefix-pool",
      ...blocks,
      evicts: "",
      finds: { aabbcc: 0, aaddee: 6, zz: 2, xxyy: 4 },
      free: 0,
    },
    // Three slots are needed: the run cd is evicted, then all of the run ef, of which one slot is left over.
    {
      names: `lightllm ${sglangs}`,
      ...runs,
      evicts: "abcd abc abef abe",
      finds: { abcd: 2, abef: 2, zz: 2, xyw: 3 },
      free: 1,
    },
    // TGI evicts only the end of ef.
    { names: "tgi", ...runs, evicts: "abcd abc abef", finds: { abcd: 2, abef: 3, zz: 2, xyw: 3 }, free: 0 },
    { names: "tgi-simple", ...blocks, evicts: "", finds: { aabbcc: 0, zz: 0 }, free: 12 },
  ];
  inAll(rows);
  rows.forEach(check);
});

test("a prompt is evicted as a whole if entries are prompts", () => {
  const rest = { tokens: 12, free: 4, finds: { aabbcc: 0, aaddee: 6, zz: 2 } };
  check({ names: "roseinfer prefix-pool", served: "aabbcc aaddee zz", evicts: "aabbcc aabb aa", ...rest });
});

test("entries that were used again are evicted later, except in the FIFO pools", () => {
  const blocks = { tokens: 12, served: "aabb ccdd ee aabb ffgg" };
  const runs = { tokens: 9, served: "abcd efgh abcd xyz" };
  const rows: readonly Row[] = [
    // The second aabb matches bb, or releases its own bb: one block is free, and the end of ccdd is evicted.
    {
      names: `${tries} ${v0}`,
      ...blocks,
      evicts: "ccdd",
      finds: { aabb: 4, ccdd: 2, ee: 2, ffgg: 4 },
      free: 0,
    },
    // It computes bb once more into the free block. The first bb is as old as before, and is evicted first.
    { names: queues, ...blocks, evicts: "aabb ccdd", finds: { aabb: 4, ccdd: 2, ee: 2, ffgg: 4 }, free: 0 },
    { names: "prefix-trie", ...blocks, evicts: "aabb", finds: { aabb: 2, ccdd: 4, ee: 2, ffgg: 4 }, free: 0 },
    { names: "prefix-pool", ...blocks, evicts: "aabb aa", finds: { aabb: 0, ccdd: 4, ee: 2, ffgg: 4 }, free: 2 },
    { names: "roseinfer", ...blocks, evicts: "ccdd cc", finds: { aabb: 4, ccdd: 0, ee: 2, ffgg: 4 }, free: 2 },
    // One slot is free: the run efgh is evicted for the other two.
    {
      names: "lightllm mini-sglang sglang",
      ...runs,
      evicts: "efgh efg ef e",
      finds: { abcd: 4, efgh: 0, xyz: 3 },
      free: 2,
    },
    // The second abcd did not renew the run d, which is too short for the three slots that are evicted.
    {
      names: "sglang@2501",
      ...runs,
      evicts: "abcd efgh efg ef e",
      finds: { abcd: 3, efgh: 0, xyz: 3 },
      free: 3,
    },
    { names: "tgi", ...runs, evicts: "efgh efg", finds: { abcd: 4, efgh: 2, xyz: 3 }, free: 0 },
    { names: "tgi-simple", ...blocks, evicts: "", finds: { aabb: 0 }, free: 12 },
  ];
  inAll(rows);
  rows.forEach(check);
});

test("a repeated prompt that fills the cache evicts its own end if the last token is recomputed", () => {
  const blocks = { tokens: 4, served: "aabb aabb", finds: { aabb: 4 }, free: 0 };
  const runs = { tokens: 4, served: "abcd abcd", finds: { abcd: 4 }, free: 0 };
  const rows: readonly Row[] = [
    // The last block may not be a hit, so that a block is needed: the only unreferenced one is evicted.
    { names: `${queues} lmdeploy turbomind`, ...blocks, evicts: "aabb" },
    { names: `lightllm ${sglangs}`, ...runs, evicts: "abcd" },
    // It reuses the last block in place, or recomputes its last token in place, or computes nothing.
    { names: "trt-llm", ...blocks, evicts: "" },
    { names: `${v0} prefix-pool prefix-trie roseinfer`, ...blocks, evicts: "" },
    { names: "tgi", ...runs, evicts: "" },
    { names: "tgi-simple", ...blocks, evicts: "", finds: { aabb: 0 }, free: 4 },
  ];
  inAll(rows);
  rows.forEach(check);
});

/*
 * Five blocks, or ten slots, all cached: aabb was used first and has priority 80, ccdd TensorRT-LLM's default 35, ee 20. Then
 * requests of one block arrive, each of which evicts one block.
 */
test("only TensorRT-LLM evicts the lowest priority first, then in release order", () => {
  const heeding = everyPreset.filter(([name]) => {
    const cache = cacheOf(name, 10);
    serveAlone(cache, "aabb", marked("aabb", { priority: 80 }));
    serveAlone(cache, "ccdd", marked("ccdd"));
    serveAlone(cache, "ee", marked("ee", { priority: 20 }));
    const evicted = ["gg", "hh", "ii"].map((prompt) => {
      const from = cache.log.count;
      serveAlone(cache, prompt, marked(prompt, { priority: 90 }));
      return evictionsSince(cache, from).map(({ key }) => cache.textOf(key));
    });
    if (name === "trt-llm") expect(evicted).toEqual([["ee"], ["ccdd"], ["cc"]]);
    return found(name, cache, "aabb") === "4";
  });
  expect(heeding.map(([name]) => name)).toEqual(["trt-llm"]);
});

/**
 * Checks that a refused admission has no side effects; the next victim must be the same, too. TGI evicts in vain for a request
 * that would fit in an empty cache, but once only.
 */
function refuses(cache: LiveCache, context: SchedulerContext): void {
  if (cache.cache.rules["failed-admission"] === "evicts") context.admit(context.firstWaiting!);
  const before = cache.state();
  for (let n = 0; n < 3; n++) {
    expect(context.admit(context.firstWaiting!)).toBe(false);
    expect(cache.state()).toEqual(before);
  }
}

describe.each(everyPreset)("%s", (name) => {
  test("refuses a request that is longer than the cache, without side effects", () => {
    const cache = cacheOf(name, 12);
    for (const prompt of ["aabbcc", "aaddee", "zz"]) serveAlone(cache, prompt, marked(prompt));
    const before = { state: cache.state(), found: found(name, cache, "aabbcc aaddee zz") };
    const events = cache.log.count;
    cache.arrive("aabbccddeeffg", marked("aabb"));
    cache.step((context) => {
      refuses(cache, context);
      context.refuse(context.firstWaiting!, "it is longer than the cache");
    });
    expect({ state: cache.state(), found: found(name, cache, "aabbcc aaddee zz") }).toEqual(before);
    expect(evictionsSince(cache, events)).toEqual([]);
    expect(cache.cache.counters).toMatchObject({ refusedRequests: 1, refusedTokens: 13, lookups: 4 });
    expect(cache.replica.isIdle).toBe(true);
  });

  test("evicts no referenced block", () => {
    const cache = cacheOf(name, 12);
    serveAlone(cache, "zzyyxx", marked("zzyyxx"));
    const first = cache.arrive("aabbc", marked("aabb", { output: "12345" }));
    cache.step();
    const uses = [...first.table.subarray(0, first.blockCount)];
    const second = cache.arrive("qqrrssttu", marked("qq"));
    cache.step((context) => {
      expect(context.schedule(first)).toBe(true);
      // Only unreferenced blocks are available for the other one, which needs more.
      refuses(cache, context);
      context.refuse(second, "too few blocks");
    });
    cache.arrive("qqrr", marked("qq"));
    while (cache.replica.running.includes(first)) {
      const events = cache.log.count;
      cache.step();
      const evicted = evictionsSince(cache, events).map(({ block }) => block);
      expect(evicted.filter((block) => uses.includes(block))).toEqual([]);
    }
    cache.finish();
    expect(cache.cache.counters).toMatchObject({ preemptions: 0, lookups: 4, refusedRequests: 1 });
    expect(cache.cache.referencedBlocks).toBe(0);
  });

  /*
   * A prompt of five tokens, and seven computed tokens at its preemption: the prompt and two of three output tokens. Presets
   * that cache output tokens have hits of three whole blocks at the next admission, or of every token; SGLang has stored only
   * the prompt.
   */
  const rehits: Record<string, number> = {
    lightllm: 7,
    lmdeploy: 6,
    "mini-sglang": 5,
    "nano-vllm": 6,
    "prefix-pool": 4,
    "prefix-trie": 4,
    roseinfer: 5,
    sglang: 5,
    "sglang@2501": 5,
    tgi: 5,
    "tgi-simple": 0,
    "trt-llm": 6,
    turbomind: 6,
    vllm: 6,
    "vllm@0.19": 6,
    "vllm-v0": 6,
    "vllm-v0@0.8": 6,
  };

  test("readmits a preempted request, which matches its stored blocks", () => {
    const cache = cacheOf(name, 24);
    const sequence = cache.arrive("aabbc", marked("aabbc", { output: "123456" }));
    for (let n = 0; n < 3; n++) cache.step();
    expect(sequence).toMatchObject({ computedTokens: 7, generatedTokens: 3 });
    cache.step((context) => context.preempt(sequence, "recompute"));
    expect(cache.replica).toMatchObject({ waitingCount: 1, runningCount: 0 });
    expect(cache.cache.referencedBlocks).toBe(0);
    cache.step();
    expect(sequence).toMatchObject({ cachedTokens: rehits[name], computedTokens: 8, generatedTokens: 4 });
    cache.finish();
    expect(sequence).toMatchObject({ generatedTokens: 6, preemptions: 1 });
    expect(cache.cache.counters).toMatchObject({ rehitTokens: rehits[name], hitTokens: 0, lookups: 1, preemptions: 1 });
  });
});

const reserving = everyPreset.filter(([, preset]) => rulesOf(preset).reserve === "worst-case");

test("only TGI reserves blocks for maxOutputTokens", () => {
  expect(reserving.map(([name]) => name)).toEqual(["tgi", "tgi-simple"]);
});

describe.each(reserving)("%s, after the admission of a request,", (name) => {
  test("allocates no further block for it, and a request that needs blocks waits until it finishes", () => {
    const cache = cacheOf(name, 12);
    // 4 + 6 − 1 = 9 tokens at most; the output ends after four.
    const first = cache.arrive("aabb", { output: "1234", maxOutputTokens: 6 });
    cache.step();
    const { freeBlocks } = cache.cache;
    const reserved = first.blockCount;
    expect(reserved).toBe(Math.ceil(9 / blockTokensOf(name)));
    const second = cache.arrive("qqrr");
    for (let n = 0; n < 2; n++) {
      cache.step();
      expect(second.blockCount).toBe(0);
      expect([first.blockCount, cache.cache.freeBlocks]).toEqual([reserved, freeBlocks]);
    }
    cache.finish();
    expect(cache.cache.counters).toMatchObject({ lookups: 2, preemptions: 0, refusedRequests: 0 });
  });
});
