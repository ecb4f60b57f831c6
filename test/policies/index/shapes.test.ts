import { describe, expect, test } from "vitest";
import { TraceBuilder } from "../../../core/trace/trace.ts";
import { evictionRegistry, indexRegistry } from "../../../policies/registry.ts";
import { replayed } from "../../support/replays.ts";

// Shapes for which a recursive walk would overflow the stack, or a walk over all siblings would be too slow.

const n = 100_000;

function traceOf(prompts: readonly (readonly number[])[]) {
  const builder = new TraceBuilder(1);
  for (const keys of prompts) builder.add({ arrivalNs: 0, inputTokens: keys.length, outputTokens: 1, keys });
  return builder.take();
}

const from = <T>(length: number, value: (i: number) => T): T[] => Array.from({ length }, (_, i) => value(i));

const path = from(n, (i) => i);
const branches = from(20, (k) => [...path.slice(0, 5000 * (k + 1) - 1), n + k]);
const other = from(n, (i) => 2 * n + i);
const branched = traceOf([path, ...branches, path, other, other]);

describe.each(
  indexRegistry.all.filter((index) => !index.storesNothing && index.unit === undefined).map((index) => index.name),
)("%s", (index) => {
  test.each(evictionRegistry.all.filter((policy) => !policy.offline).map((policy) => policy.name))(
    "with %s: a path of 100,000 blocks is inserted, branched, matched and evicted",
    (policy) => {
      const { requests, report } = replayed(branched, { index, policy, blockTokens: 1, blocks: n + 20 });
      // A policy that refuses blocks does not store `other` at its first request.
      const last = (report.refusedBlocks ?? 0) > 0 ? 0 : n;
      const shared = branches.map((branch) => branch.length - 1);
      expect([...requests.hitTokens]).toEqual([0, ...shared, n, 0, last]);
      if (policy !== "unbounded") expect(report.evictedBlocks).toBe(n);
    },
  );

  test("a block with 100,000 children matches each of them, and all are evicted", () => {
    const children = from(n, (i) => [0, i + 1]);
    const others = from(n + 1, (i) => 2 * n + i);
    const trace = traceOf([...children, ...children, others, ...children.slice(0, 2)]);
    const { requests } = replayed(trace, { index, blockTokens: 1, blocks: n + 1 });
    const hits = [...requests.hitTokens];
    expect(hits.slice(0, n)).toEqual(from(n, (i) => (i === 0 ? 0 : 1)));
    expect(hits.slice(n, 2 * n).every((tokens) => tokens === 2)).toBe(true);
    expect(hits.slice(2 * n)).toEqual([0, 0, 1]);
  });
});

test("in a block trie with victims=any, evicting the first block of a path of 100,000 evicts all of them", () => {
  const rules = { victims: "any", "free-order": "forward" };
  const trace = traceOf([path, [2 * n], path]);
  const { requests, report } = replayed(trace, {
    index: "block-trie",
    policy: "fifo",
    rules,
    blockTokens: 1,
    blocks: n,
  });
  expect([...requests.hitTokens]).toEqual([0, 0, 0]);
  expect(report.missTokens.evicted).toBe(n);
});
