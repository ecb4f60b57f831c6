import { expect, test } from "vitest";
import { evictionRegistry } from "../../../policies/registry.ts";
import { letterTrace } from "../../support/letters.ts";
import { replayed } from "../../support/replays.ts";

test("a sorted list grows with its blocks: every block of 300 prompts that come again is a hit", () => {
  // Two letters per prompt, the prompts in no order of their contents.
  const prompts = Array.from({ length: 300 }, (_, i) => {
    const first = String.fromCodePoint(0x4e00 + ((i * 7919) % 300));
    return first + String.fromCodePoint(0x6000 + i);
  });
  const trace = letterTrace([...prompts, ...prompts]);
  const { cache } = replayed(trace, { index: "sorted-list", eviction: evictionRegistry.get("unbounded") });
  expect(cache.counters.hitBlocks).toBe(600);
  expect(cache.index.blockCount).toBe(600);
});
