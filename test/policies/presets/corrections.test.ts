import { describe, expect, test } from "vitest";
import type { RuleName, RuleValue } from "../../../core/plugins/rules.ts";
import { replayTrace } from "../../../core/replica/replay.ts";
import { TraceBuilder } from "../../../core/trace/trace.ts";
import { schedulerRegistry } from "../../../policies/registry.ts";
import { presetNamed } from "./presets.ts";

/*
 * The smallest traces on which SGLang, TGI and vLLM v0 differ from a cache that splits a node before it renews it, evicts what
 * is missing and counts every cached token. One output token each, one request at a time; the numbers are those of the
 * originals' own code.
 */

interface Own {
  readonly blockTokens?: number;
  readonly rules?: Partial<Record<RuleName, RuleValue>>;
}

/** Hit tokens of each request, or "refused". */
function served(name: string, blocks: number, prompts: readonly number[][], own: Own = {}): (number | "refused")[] {
  const { index, eviction, allocator, rules, blockTokens } = presetNamed(name);
  const builder = new TraceBuilder(1);
  for (const keys of prompts) builder.add({ arrivalNs: 0, inputTokens: keys.length, outputTokens: 1, keys });
  const parts = {
    index,
    eviction,
    allocator,
    scheduler: schedulerRegistry.get("naive"),
    audit: true,
    seed: 1,
  };
  const { requests } = replayTrace(builder.take(), {
    ...parts,
    blocks,
    blockTokens: own.blockTokens ?? blockTokens,
    rules: { ...rules, ...own.rules },
  });
  return prompts.map((_, r) => (requests.refused[r] === 1 ? "refused" : requests.hitTokens[r]));
}

const split = { "node-match": "split" };

describe("8: a prompt that shares only the beginning of a node renews all of it", () => {
  const prompts = [
    [1, 2, 3, 4, 5, 6],
    [7, 8, 9],
    [1, 19],
    [21, 22, 23],
    [1, 2, 3, 4, 5, 6],
  ];

  test("in SGLang since PR 3029 and in TGI the first prompt is still cached", () => {
    for (const name of ["sglang", "tgi"]) expect(served(name, 10, prompts).at(-1)).toBe(5);
  });

  test("where the node is split before it is renewed, its rest is evicted: whole, or in TGI its end", () => {
    expect(served("sglang", 10, prompts, { rules: split }).at(-1)).toBe(1);
    expect(served("tgi", 10, prompts, { rules: split }).at(-1)).toBe(3);
    for (const name of ["sglang@2501", "mini-sglang"]) expect(served(name, 10, prompts).at(-1)).toBe(1);
  });
});

describe("9: SGLang evicts as many slots as a prompt needs, not only those that are missing", () => {
  const prompts = [
    [1, 2],
    [11, 12],
    [21, 22, 23, 24],
    [11, 12],
  ];

  test("the last prompt was evicted for one missing slot", () => {
    for (const name of ["sglang", "sglang@2501"]) expect(served(name, 7, prompts)).toEqual([0, 0, 0, 0]);
  });

  test("mini-sglang evicts the missing slots only, as does the rule evict-amount=missing", () => {
    expect(served("mini-sglang", 7, prompts)).toEqual([0, 0, 0, 1]);
    expect(served("sglang", 7, prompts, { rules: { "evict-amount": "missing" } })).toEqual([0, 0, 0, 1]);
  });
});

describe("10: TGI protects the whole node that a request matches in part", () => {
  const prompts = [
    [1, 2, 3, 4, 5, 6, 7, 8],
    [1, 12, 13, 14, 15],
  ];

  test("a request that would fit is never admitted, and is refused here", () => {
    expect(served("tgi", 10, prompts)).toEqual([0, "refused"]);
  });

  test("the rules node-match=renew and split admit it", () => {
    for (const value of ["renew", "split"])
      expect(served("tgi", 10, prompts, { rules: { "node-match": value } })).toEqual([0, 1]);
  });

  test("an admission that fails has evicted all other nodes, unless the rule is failed-admission=unchanged", () => {
    const between = [prompts[0], [31, 32], prompts[1], [31, 32]];
    expect(served("tgi", 10, between)).toEqual([0, 0, "refused", 0]);
    const own = { rules: { "failed-admission": "unchanged" } };
    expect(served("tgi", 10, between, own)).toEqual([0, 0, "refused", 1]);
  });

  test("a request that is longer than the cache evicts nothing", () => {
    const long = Array.from({ length: 11 }, (_, i) => 41 + i);
    expect(served("tgi", 10, [[31, 32], long, [31, 32]])).toEqual([0, "refused", 1]);
  });
});

describe("11: completely cached prompts", () => {
  const twice = [
    [1, 2, 3, 4],
    [1, 2, 3, 4],
  ];

  test("TGI counts all tokens but the last, which it recomputes in the shared block", () => {
    expect(served("tgi", 4, twice)).toEqual([0, 3]);
    expect(served("tgi", 2, twice, { blockTokens: 2 })).toEqual([0, 3]);
  });

  test("vLLM v0 counted no token of the last block at first, later all tokens but the last", () => {
    expect(served("vllm-v0", 2, twice, { blockTokens: 2 })).toEqual([0, 2]);
    expect(served("vllm-v0@0.8", 2, twice, { blockTokens: 2 })).toEqual([0, 3]);
  });
});

test("of nodes that TGI used at the same time, the one with the smallest number is evicted first", () => {
  const prompts = [
    [2, 1],
    [2, 1, 1],
    [2, 3, 1, 2],
    [1, 1],
    [2, 1, 3],
  ];
  expect(served("tgi", 6, prompts)).toEqual([0, 2, 1, 0, 1]);
});
