import { expect, test } from "vitest";
import { replayTrace } from "../../../core/replica/replay.ts";
import { schedulerRegistry } from "../../../policies/registry.ts";
import { type Row, tracesOf } from "../../support/simulated.ts";
import { presetNamed } from "./presets.ts";

/** 300 prompts of 512 tokens, sent twice in the same order. */
const prompts = Array.from({ length: 300 }, (_, i) => Array.from({ length: 512 }, (_, at) => 1 + i * 512 + at));
const [trace] = tracesOf([...prompts, ...prompts].map((prompt): Row => ({ prompt })));

function hitTokens(rules: Readonly<Record<string, number | string>>): number {
  const { index, eviction, allocator, blockTokens, rules: own } = presetNamed("roseinfer");
  const parts = { index, eviction, allocator, scheduler: schedulerRegistry.get("naive"), blockTokens };
  const { requests } = replayTrace(trace, { ...parts, blocks: undefined, seed: 1, rules: { ...own, ...rules } });
  return requests.hitTokens.reduce((sum, tokens) => sum + tokens, 0);
}

test("a table of 256 entries has none of 300 prompts when they are sent again in the same order", () => {
  expect(hitTokens({})).toBe(0);
  expect(hitTokens({ "max-entries": 299 })).toBe(0);
});

test("without a limit every prompt is found again", () => {
  expect(hitTokens({ "max-entries": "unlimited" })).toBe(153_600);
});
