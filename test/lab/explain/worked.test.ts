import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { explanationTexts } from "../../../cli/output/explanation.ts";
import { prefillLoad } from "../../../core/serving/step-load.ts";
import { Histogram } from "../../../lab/explain/histogram.ts";
import { MaxTree } from "../../../lab/explain/max-tree.ts";
import { replay, simulate, streamTrace } from "../../../lab/run/run-trace.ts";
import { letterTrace } from "../../support/letters.ts";

const noTrace = { name: "letters", files: [], format: "content-ids", inputTokens: 0, outputTokens: 0 };
const inputOf = (prompts: readonly string[]) => ({ ...noTrace, trace: letterTrace(prompts) });

test("LRU evicts a block that the last request needs, although another one is never used again", async () => {
  // Two blocks. C takes the block of B, which is released first; D takes the block of A, and that of C would have been right.
  const { report } = await replay(inputOf(["AB", "C", "D", "A"]), {
    blocks: { blocks: 2 },
    explain: [3],
    residency: true,
  });
  expect(report.explain).toEqual({
    ageUnit: "requests",
    missedTokens: { eviction: 16, expiry: 0, operator: 0, request: 0, notStored: 0 },
    evictions: { blocks: 3, rightBlocks: 2, missedBlocks: 1, avoidableTokens: 16 },
    worst: [
      {
        ...{ replica: 0, request: 2, at: 2, blocks: 1, rightBlocks: 0, missedBlocks: 1, missedTokens: 16, missedBy: 3 },
        instead: { lastUsedBy: 1, nextUsedBy: null },
      },
    ],
    requests: [
      {
        ...{ request: 3, replica: 0, inputTokens: 16, hitTokens: 0, evictedTokens: 16 },
        runs: [
          {
            ...{ from: 0, to: 16, reason: "evicted" },
            removal: {
              ...{ cause: "eviction", request: 2, ago: { requests: 1, arrivalNs: 1 } },
              ...{ lastUsedBy: 0, idle: { requests: 2, arrivalNs: 2 } },
              instead: { lastUsedBy: 1, nextUsedBy: null },
            },
          },
        ],
        ...{ sharedTokens: 16, sharedWith: 0 },
      },
    ],
  });
  expect(report.residency).toMatchObject({
    ...{ ageUnit: "requests", cachedBlocks: 2, notStoredTokens: 0 },
    removedBlocks: { eviction: 3, expiry: 0, operator: 0, request: 0 },
    ageAtHit: { count: 0, p50: 0, bins: [] },
    // B after one request, A after two, C after two.
    ageAtEviction: {
      count: 3,
      mean: 5 / 3,
      p10: 1,
      p50: 2,
      max: 2,
      bins: [
        { from: 1, below: 2, count: 1 },
        { from: 2, below: 5, count: 2 },
      ],
    },
    lifetime: { count: 3, max: 2 },
    hitsPerBlock: { count: 5, max: 0 },
    ageAtMiss: { count: 16, mean: 1 },
  });
});

test("the requests with the most missed tokens that had been cached come first, and hits are runs, too", async () => {
  const prompts = ["ABC", "DEF", "ABC", "GH", "ABCX"];
  const { report } = await replay(inputOf(prompts), { blocks: { blocks: 4 }, explainTop: 2 });
  const { requests } = report.explain!;
  expect(requests.map(({ request, hitTokens, evictedTokens }) => [request, hitTokens, evictedTokens])).toEqual([
    [2, 16, 32],
    [4, 32, 16],
  ]);
  expect(requests[1].runs.map(({ from, to, reason }) => [from, to, reason])).toEqual([
    [0, 32, "hit"],
    [32, 48, "evicted"],
    [48, 64, "never-seen"],
  ]);
  expect(report.residency).toBeUndefined();
});

test("an entry that expired is neither an eviction nor an operator's deletion", async () => {
  const { trace } = inputOf(["A", "B", "A"]);
  const late = { ...trace, arrivalNs: Float64Array.from([0, 1e9, 60e9]) };
  const options = { blocks: { blocks: 4 }, eviction: "ttl:ttl-s=10", explain: [2], residency: true };
  const { report } = await replay({ ...noTrace, trace: late }, options);
  expect(report.explain!.missedTokens).toEqual({ eviction: 0, expiry: 16, operator: 0, request: 0, notStored: 0 });
  expect(report.explain!.requests[0].runs[0].removal).toMatchObject({ cause: "expiry", request: null, lastUsedBy: 0 });
  expect(report.residency).toMatchObject({ removedBlocks: { eviction: 0, expiry: 2 }, cachedBlocks: 1 });
});

test("in virtual time ages are in ns, and a run of missed tokens has the duration of a step that computes it", async () => {
  const { report } = await simulate(inputOf(["ABC", "DEF", "ABC"]), { blocks: { blocks: 3 }, explain: [2] });
  const { ageUnit, requests } = report.explain!;
  const [run] = requests[0].runs;
  expect([ageUnit, run.from, run.to]).toEqual(["ns", 0, 48]);
  expect(run.recomputeMs).toBeGreaterThan(0);
  expect(run.removal!.ago).toEqual({ ns: expect.any(Number) });
});

test("the load of a step that computes a part of one prompt", () => {
  // Tokens 4 to 6 read 5 + 6 + 7 tokens; with a window of 2 each reads 2.
  expect(prefillLoad(4, 7)).toMatchObject({
    sequences: 1,
    prefillTokens: 3,
    prefillContextTokens: 7,
    prefillPairs: 18,
  });
  expect(prefillLoad(4, 7, 2)).toMatchObject({ prefillWindowTokens: 4, prefillWindowPairs: 6 });
});

test.each([
  [{ explain: [4] }, "--explain is 4, the trace has 4 requests, from 0"],
  [{ explain: [2], repeat: 2 }, "--explain and --repeat exclude each other: explanations are of one run"],
  [{ explainTop: 2, repeat: 2 }, "--explain-top and --repeat exclude each other: explanations are of one run"],
  [{ residency: true, repeat: 2 }, "--residency and --repeat exclude each other: explanations are of one run"],
  [
    { explain: [0], index: "block-trie", rules: { "full-hit": "rewrite-miss", partial: "copy" } as const },
    "--explain does not support the rules full-hit=rewrite-miss and partial=copy together",
  ],
])("%o is refused", async (options, message) => {
  await expect(replay(inputOf(["AB", "C", "D", "A"]), options)).rejects.toThrow(message);
});

test("a request that was refused is explained as refused, and the others as before", async () => {
  const { report } = await replay(inputOf(["A", "BCDE"]), { blocks: { blocks: 2 }, explain: [1, 0] });
  const { requests } = report.explain!;
  const nothing = { hitTokens: 0, evictedTokens: 0, runs: [], sharedTokens: 0, sharedWith: null };
  expect(requests[0]).toEqual({ request: 1, replica: 0, notAdmitted: "refused", inputTokens: 64, ...nothing });
  expect(requests[1]).toMatchObject({ request: 0, inputTokens: 16, runs: [{ from: 0, to: 16, reason: "never-seen" }] });
  expect(requests[1]).not.toHaveProperty("notAdmitted");
  const evicted = report.cache.missTokens.evicted;
  expect(explanationTexts(report.explain!, evicted)[0]).toBe("Request 1 was refused: it has no hits or misses");
});

test("a trace whose length is unknown before the run refuses a request that it does not have", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "kvlab-explain-")), "trace.jsonl");
  const line = { timestamp: 0, input_length: 512, output_length: 1, hash_ids: [1] };
  writeFileSync(file, `${JSON.stringify(line)}\n`.repeat(3));
  const options = { blocks: { blocks: 2 }, explain: [3] };
  const message = "--explain is 3, the trace has 3 requests, from 0";
  await expect(streamTrace(file, { ...options, target: "cache" })).rejects.toThrow(message);
  rmSync(dirname(file), { recursive: true });
});

test.each([
  ["--explain", { explain: [0] }],
  ["--explain-top", { explainTop: 1 }],
  ["--residency", { residency: true }],
])("%s is refused for a trace of lengths", async (option, own) => {
  const { trace } = inputOf(["A", "B"]);
  const lengths = { ...trace, lengthsOnly: true as const, keys: new Uint32Array(0), keyStart: new Float64Array(3) };
  const options = { index: "none", blocks: { blocks: 4 }, ...own };
  await expect(simulate({ ...noTrace, trace: lengths }, options)).rejects.toThrow(
    `${option} does not support traces of lengths: their prompts have no content that hits or misses`,
  );
});

test("a histogram has three significant digits, and bins that begin at 1, 2 and 5 times powers of ten", () => {
  const histogram = new Histogram();
  for (const value of [0, 999, 1000, 1009, 123_456, 9_007_199_254_740_991]) histogram.add(value);
  expect([0.1, 0.5, 0.6, 0.8, 1].map((share) => histogram.quantile(share))).toEqual([0, 1000, 1000, 123_000, 9e15]);
  expect(histogram.bins()).toEqual([
    { from: 0, below: 1, count: 1 },
    { from: 500, below: 1000, count: 1 },
    { from: 1000, below: 2000, count: 2 },
    { from: 100_000, below: 200_000, count: 1 },
    { from: 5e15, below: 1e16, count: 1 },
  ]);
});

test("a tree of maxima has the largest number after any change", () => {
  const tree = new MaxTree();
  const numbers: number[] = [];
  for (let i = 0; i < 500; i++) {
    const index = (i * 7919) % 37;
    numbers[index] = (i * 104_729) % 101;
    tree.set(index, numbers[index]);
    const all = Array.from(numbers, (number) => number ?? 0);
    expect([tree.max, tree.argMax]).toEqual([Math.max(...all), all.indexOf(Math.max(...all))]);
  }
});
