import { describe, expect, test } from "vitest";
import type { ChainHash } from "../../../core/trace/content.ts";
import { everyPreset, liveOf, presetNamed } from "./presets.ts";

/*
 * When the tokens that a request computes become hits for other requests, and what is cached if two of them compute the same. A
 * letter is a token; a block has two of them, or one in the token trees. For pools the first six tokens are marked. The first
 * request has the prompt aabbcc and the output 12345; the columns are hit tokens of a second request:
 *
 *   same     aabbcc, in the step that computes the first one's
 *   next     aabbcc, in the step after that
 *   chunk    aabbcc, when the first one has computed the chunk aabb
 *   decode   aabbcc12x, when the first one has computed its prompt and 12, and continues
 *   ended    aabbcc12x, when the first one has finished
 *   twins    tokens cached after two requests aabbcc that began in the same step; outputs of one token
 *
 *   vllm, lmdeploy            at once, but not the last block; vllm caches that block twice
 *   vllm-v0                   after the step (blocks are shared before, but recomputed), but not the last block; 0.8: not the last token
 *   nano-vllm, turbomind      after the step, but not the last block; nano-vllm keeps both copies of all three blocks
 *   sglang, mini-sglang       after each chunk of the prompt; output tokens when the request finishes
 *   lightllm, trt-llm, tgi    when the request finishes; TGI without output tokens
 *   roseinfer, prefix-pool, prefix-trie   after the step that completes the prompt, or the prefix, as a whole
 */
type Row = readonly [same: number, next: number, chunk: number, decode: number, ended: number, twins: number];

const rows: Record<string, Row> = {
  lightllm: [0, 0, 0, 0, 8, 6],
  lmdeploy: [4, 4, 4, 8, 8, 6],
  "mini-sglang": [0, 5, 4, 6, 8, 6],
  "nano-vllm": [0, 4, 4, 8, 8, 12],
  "prefix-pool": [0, 6, 0, 6, 6, 6],
  "prefix-trie": [0, 6, 0, 6, 6, 6],
  roseinfer: [0, 6, 0, 0, 0, 6],
  sglang: [0, 5, 4, 6, 8, 6],
  "sglang@2501": [0, 5, 4, 6, 8, 6],
  tgi: [0, 0, 0, 0, 6, 6],
  "tgi-simple": [0, 0, 0, 0, 0, 0],
  "trt-llm": [0, 0, 0, 0, 8, 6],
  turbomind: [0, 4, 4, 8, 8, 6],
  vllm: [4, 4, 4, 8, 8, 8],
  "vllm@0.19": [4, 4, 4, 8, 8, 8],
  "vllm-v0": [0, 4, 4, 8, 8, 6],
  "vllm-v0@0.8": [0, 5, 4, 8, 8, 6],
};

const prompt = "aabbcc";
const continued = "aabbcc12x";
const options = { markedTokens: prompt.length };
const withOutput = { ...options, output: "12345" };

describe.each(everyPreset)("%s", (name, preset) => {
  const [same, next, chunk, decode, ended, twins] = rows[name];
  const blockTokens = Math.min(2, preset.blockTokens);
  const cacheOf = () => liveOf(name, { blockTokens, blocks: 60 / blockTokens });

  test("two requests admitted in the same step", () => {
    const cache = cacheOf();
    const both = [cache.arrive(prompt, options), cache.arrive(prompt, options)];
    const plan = cache.plan();
    expect(both.map(({ cachedTokens }) => cachedTokens)).toEqual([0, same]);
    cache.replica.commit(plan, { durationNs: 1 }, cache.now);
    cache.finish();
    expect(cache.cache.index.blockCount * blockTokens).toBe(twins);
    expect((60 / blockTokens - cache.cache.freeBlocks) * blockTokens).toBe(twins);
  });

  test("a request admitted one step later", () => {
    const cache = cacheOf();
    cache.arrive(prompt, withOutput);
    cache.step();
    expect(cache.hits(prompt, options)).toBe(next);
    const second = cache.arrive(prompt, options);
    cache.plan();
    expect(second.cachedTokens).toBe(next);
  });

  test("a request admitted between two chunks of a prompt", () => {
    const cache = cacheOf();
    cache.arrive(prompt, withOutput);
    cache.step((context) => expect(context.admit(context.firstWaiting!, 4)).toBe(true));
    expect(cache.hits(prompt, options)).toBe(chunk);
    cache.finish();
  });

  test("a prompt that includes another request's output, during its decode and after its end", () => {
    const cache = cacheOf();
    const first = cache.arrive(prompt, withOutput);
    for (let n = 0; n < 3; n++) cache.step();
    expect(first).toMatchObject({ computedTokens: 8, generatedTokens: 3 });
    expect(cache.hits(continued, options)).toBe(decode);
    cache.finish();
    expect(cache.hits(continued, options)).toBe(ended);
  });
});

test.each([
  ["vllm", 0],
  ["nano-vllm", 1],
] as const)("of two blocks with the same content %s finds number %d", (name, which) => {
  const cache = liveOf(name, { blockTokens: 2 });
  // The last block of aabb may not be a hit: the second request computes it again.
  const copies = ["aabb", "aabb"].map((asking) => {
    const sequence = cache.arrive(asking);
    cache.step();
    return sequence.table[1];
  });
  const third = cache.arrive("aabbx");
  cache.plan();
  expect(third).toMatchObject({ cachedTokens: 4 });
  expect(third.table[1]).toBe(copies[which]);
  expect(copies[0]).not.toBe(copies[1]);
});

test("a rolled back step publishes no block", () => {
  for (const [name] of everyPreset) {
    const { blockTokens } = presetNamed(name);
    const cache = liveOf(name, { blockTokens: Math.min(2, blockTokens) });
    cache.arrive(prompt, withOutput);
    const plan = cache.plan();
    cache.replica.rollback(plan, cache.now);
    cache.audit();
    expect(cache.hits(prompt, options), name).toBe(0);
    expect(cache.cache.index.blockCount, name).toBe(0);
    cache.finish();
    expect(cache.cache.counters, name).toMatchObject({ lookups: 1, rehitTokens: 0 });
  }
});

/*
 * aabb is cached, and referenced by a request that has just allocated the last block for its output. Presets that need only the
 * logits of aabb, or recompute its last token in place, need no block; the others do.
 */
test("whether a prompt that is cached and referenced to its end needs another block", () => {
  const needsNone = everyPreset.filter(([name, preset]) => {
    const isToken = preset.blockTokens === 1;
    const cache = liveOf(name, isToken ? { blocks: 5 } : { blockTokens: 2, blocks: 3 });
    const whole = { markedTokens: 4 };
    cache.run("aabb", whole);
    const first = cache.arrive("aabb", { ...whole, output: "12" });
    cache.step();
    cache.arrive("aabb", whole);
    let admitted = false;
    const copies = cache.step((context) => {
      expect(context.schedule(first)).toBe(true);
      admitted = context.admit(context.firstWaiting!);
    });
    cache.finish();
    expect(copies, name).toEqual([]);
    return admitted;
  });
  expect(needsNone.map(([name]) => name)).toEqual([
    ...["prefix-pool", "prefix-trie", "roseinfer", "tgi", "vllm-v0", "vllm-v0@0.8"],
  ]);
});

test("blocks computed in the same step are not allocated twice if blocks are shared before they are computed", () => {
  const shares = everyPreset.filter(([, preset]) => {
    const cache = liveOf(preset.name, preset.blockTokens === 1 ? { blocks: 6 } : { blockTokens: 2, blocks: 3 });
    for (let n = 0; n < 2; n++) cache.arrive(prompt, options);
    let both = false;
    cache.step((context) => {
      expect(context.admit(context.firstWaiting!)).toBe(true);
      both = context.admit(context.firstWaiting!);
    });
    cache.finish();
    return both;
  });
  expect(shares.map(([name]) => name)).toEqual(["vllm-v0", "vllm-v0@0.8"]);
});

/** A hash of the length of a prefix, regardless of its content. */
const lengthOnly: ChainHash = (lanes) => void lanes.fill(lanes[0] + 1);

test("only vLLM trusts equal hashes", () => {
  const trusting = everyPreset.filter(([name, preset]) => {
    const cache = liveOf(name, { blockTokens: Math.min(2, preset.blockTokens), hash: lengthOnly });
    cache.run("aabbcc", options);
    return cache.hits("qqrrsst", options) > 0;
  });
  expect(trusting.map(([name]) => name)).toEqual(["vllm", "vllm-v0", "vllm-v0@0.8", "vllm@0.19"]);
});
