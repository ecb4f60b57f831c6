import { beforeAll, describe, expect, test } from "vitest";
import { comparisonTable } from "../../cli/compare/comparison-table.ts";
import { curveTable } from "../../cli/curve/curve-table.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { compareReplays } from "../../lab/compare/compare.ts";
import { hitRatioCurves } from "../../lab/curve/curves.ts";
import { openTrace } from "../../traces/open.ts";
import { hasRecordedTraces, recordedTracePath } from "../support/recordings.ts";
import { replayed } from "../support/replays.ts";

// Published hit ratios, exact to the last printed digit. A ratio is written as in the papers, without its zero.
const lists = (rules: Partial<Record<RuleName, RuleValue>>) =>
  Object.fromEntries(Object.entries(rules).map(([name, value]) => [name, [value]]));
const shown = (ratio: number) => ratio.toFixed(4).slice(1);

describe.runIf(hasRecordedTraces)("Mooncake's FAST'25 conversation trace", () => {
  let trace: Trace;
  beforeAll(async () => {
    trace = await readTrace(await openTrace([recordedTracePath("mooncake/conversation_trace.jsonl.gz")]));
  });

  const capacities = [1_000, 5_859, 10_000, 30_000, 50_000, 100_000];
  const rows: [name: string, policy: string, rules: Partial<Record<RuleName, RuleValue>>, ratios: string][] = [
    ["FIFO, deepest block first", "fifo", {}, ".0445 .1255 .1816 .2940 .3336 .3563"],
    ["FIFO, first block first", "fifo", { "free-order": "forward" }, ".0445 .1250 .1814 .2934 .3336 .3563"],
    ["LRU, first block first", "lru", { "free-order": "forward" }, ".0445 .1355 .2112 .3257 .3546 .3637"],
    ["LRU, deepest block first", "lru", {}, ".0445 .1361 .2116 .3257 .3546 .3637"],
    ["the offline optimum", "belady", {}, ".1792 .3516 .3664 .3664 .3664 .3664"],
  ];
  test.each(rows)("%s hits at 1,000 to 100,000 blocks as published", (_name, policy, rules, ratios) => {
    const ours = capacities.map((blocks) => shown(replayed(trace, { policy, rules, blocks }).report.hitRatio.block));
    expect(ours.join(" ")).toBe(ratios);
  });

  test.each(["block-trie", "radix-tree"])(
    "LRU in a %s, leaves first, hits what the deepest block first hits",
    (index) => {
      const rules = { victims: "leaf" };
      const hits = capacities.map((blocks) => shown(replayed(trace, { index, rules, blocks }).report.hitRatio.block));
      expect(hits.join(" ")).toBe(".0445 .1361 .2116 .3257 .3546 .3637");
    },
  );

  test.each([
    ["deepest", {}, ".0445 .1361 .2116 .3257 .3546 .3637"],
    ["first", { "free-order": "forward" }, ".0445 .1355 .2112 .3257 .3546 .3637"],
  ])("LRU, %s block first, hits as published at all sizes in one pass", async (_order, rules, ratios) => {
    const input = { name: "conversation", files: [], format: "mooncake", trace, inputTokens: 0, outputTokens: 0 };
    const blocks = capacities.map((blocks) => ({ blocks }));
    const { curves } = (await hitRatioCurves(input, { blocks, rules: lists(rules) })).report;
    expect(curves[0].method).toBe("one-pass");
    expect(curves[0].points.map(({ hitRatio }) => shown(hitRatio.block!)).join(" ")).toBe(ratios);
  });

  test("LRU's ratios in both orders are one band, of a comparison and of a curve", async () => {
    const input = { name: "conversation", files: [], format: "mooncake", trace, inputTokens: 0, outputTokens: 0 };
    const rules = { "free-order": ["reverse", "forward"] };
    const options = { blocks: [{ blocks: 10_000 }], eviction: ["lru"], rules };
    const compared = await compareReplays(input, options);
    const { low, high } = compared.report.bands![0].hitRatio.block;
    expect([shown(low), shown(high)]).toEqual([".2112", ".2116"]);
    expect(comparisonTable(compared.comparison)).toMatch(/^ {2}lru +0\.2112–0\.2116\*$/m);
    const curves = await hitRatioCurves(input, options);
    expect(curves.report.bands![0].points).toEqual([{ blocks: 10_000, low, high }]);
    expect(curveTable(curves)).toMatch(/^ +10,000 +5\.47 % +0\.2112–0\.2116$/m);
  });

  test("LRU, first block first, at a share of the 182,790 distinct blocks", () => {
    expect(trace.distinctKeys).toBe(182_790);
    const ours = [0.01, 0.05, 0.1, 0.25, 0.5].map((share) => {
      const blocks = Math.floor(share * trace.distinctKeys);
      return shown(replayed(trace, { rules: { "free-order": "forward" }, blocks }).report.hitRatio.block);
    });
    expect(ours.join(" ")).toBe(".0523 .1954 .2784 .3535 .3631");
  });

  test("without a limit, each definition of the hit ratio has its published value", () => {
    const { hitRatio, lookups, lookupBlocks, lookupTokens } = replayed(trace, { policy: "unbounded" }).report;
    expect({ lookups, lookupBlocks, lookupTokens }).toEqual({
      lookups: 12_031,
      lookupBlocks: 288_500,
      lookupTokens: 144_793_823,
    });
    expect(Object.fromEntries(Object.entries(hitRatio).map(([name, ratio]) => [name, shown(ratio)]))).toEqual({
      block: ".3664",
      token: ".3736",
      requestMeanBlock: ".3843",
      requestMeanToken: ".4094",
      fullBlock: ".3819",
      anyResidentBlock: ".3664",
    });
  });
});

describe.runIf(hasRecordedTraces)("ShareGPT-300, prompt and output cached", () => {
  let trace: Trace;
  beforeAll(async () => {
    trace = await readTrace(await openTrace([recordedTracePath("sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz")]));
  });
  const rules = { "match-limit": "l-1", "cache-generated": "true" };

  test.each(["hash-table", "block-trie", "radix-tree"])("%s: 19,520 of 257,239 tokens hit", (index) => {
    const { hitTokens, lookupTokens } = replayed(trace, { index, policy: "unbounded", rules }).report;
    expect({ hitTokens, lookupTokens }).toEqual({ hitTokens: 19_520, lookupTokens: 257_239 });
  });

  test.each([1, 7, 64])(
    "blocks of %i tokens: every index hits the longest common prefixes, in whole blocks",
    (size) => {
      const expected = commonPrefixes(trace).reduce((sum, tokens) => sum + tokens - (tokens % size), 0);
      const hits = ["hash-table", "block-trie", "radix-tree"].map(
        (index) => replayed(trace, { index, policy: "unbounded", rules, blockTokens: size }).report.hitTokens,
      );
      expect(hits).toEqual([expected, expected, expected]);
    },
  );
});

/**
 * By prompt, without its last token: length of the longest common prefix with an earlier prompt and its output, without the
 * last token.
 */
function commonPrefixes({ keys, keyStart, requestCount, optional }: Trace): number[] {
  const { generatedKeys, generatedStart } = optional;
  const texts = Array.from({ length: requestCount }, (_, r) => [
    ...keys.subarray(keyStart[r], keyStart[r + 1]),
    ...generatedKeys!.subarray(generatedStart![r], Math.max(generatedStart![r], generatedStart![r + 1] - 1)),
  ]);
  return texts.map((own, r) => {
    const length = keyStart[r + 1] - keyStart[r] - 1;
    let most = 0;
    for (const earlier of texts.slice(0, r)) {
      let common = 0;
      while (common < length && own[common] === earlier[common]) common++;
      most = Math.max(most, common);
    }
    return most;
  });
}
