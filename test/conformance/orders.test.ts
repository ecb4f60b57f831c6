import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { peakTokens, type TokenDemand } from "../../policies/scheduler/peak-tokens.ts";
import {
  dfsWeightOrder,
  lofOrder,
  lpmDefaults,
  lpmOrder,
  type Waiting,
} from "../../policies/scheduler/waiting-order.ts";

/** The same peak, counted step by step: each request generates a token per step, and its tokens are freed when it finishes. */
function stepByStep(requests: readonly TokenDemand[]): number {
  const total = (now: readonly TokenDemand[]) => now.reduce((sum, { currentTokens }) => sum + currentTokens, 0);
  let running = [...requests];
  // The tokens of a request count until it finishes.
  let peak = total(running);
  while (running.length > 0) {
    running = running
      .filter(({ remainingTokens }) => remainingTokens > 0)
      .map(({ currentTokens, remainingTokens }) => ({
        currentTokens: currentTokens + 1,
        remainingTokens: remainingTokens - 1,
      }));
    peak = Math.max(peak, total(running));
  }
  return peak;
}

test("the peak is the largest number of tokens at any step", () => {
  const demand = fc.record({ currentTokens: fc.nat(30), remainingTokens: fc.nat(20) });
  fc.assert(
    fc.property(fc.array(demand, { maxLength: 12 }), (requests) => {
      expect(peakTokens(requests)).toBe(stepByStep(requests));
    }),
  );
});

interface Named extends Waiting {
  readonly id: number;
}

const ids = (order: readonly Named[]) => order.map(({ id }) => id);

describe("longest prefix match", () => {
  const repeated = Array.from({ length: 129 }, (_, id) => ({ id, tokens: new Array(40).fill(1), cachedTokens: 0 }));

  test("admits one of several requests with the same uncached prefix first and defers the others in order", () => {
    const other = { id: 200, tokens: [2], cachedTokens: 0 };
    expect(ids(lpmOrder([...repeated.slice(0, 3), other]))).toEqual([0, 200, 1, 2]);
  });

  test("keeps the arrival order of 129 requests and sorts 128", () => {
    const cached = { id: 300, tokens: [5, 6, 7], cachedTokens: 2 };
    expect(ids(lpmOrder([...repeated.slice(0, 128), cached]))[0]).toBe(0);
    expect(ids(lpmOrder([...repeated.slice(0, 127), cached]))[0]).toBe(300);
  });

  test("compares no request with the queue at a threshold of -1", () => {
    expect(ids(lpmOrder(repeated.slice(0, 3), { ...lpmDefaults, checkThreshold: -1 }))).toEqual([0, 1, 2]);
  });

  test("does not modify the queue", () => {
    const queue = [
      { id: 1, tokens: [1, 2], cachedTokens: 0 },
      { id: 2, tokens: [3, 4], cachedTokens: 1 },
    ];
    for (const order of [lpmOrder(queue), dfsWeightOrder(queue)]) expect(ids(order)).toEqual([2, 1]);
    expect(ids(queue)).toEqual([1, 2]);
  });
});

test("the longest output is first; ties are broken by arrival", () => {
  const queue = [3, 9, 3, 9].map((maxOutputTokens, id) => ({ id, maxOutputTokens }));
  expect(lofOrder(queue).map(({ id }) => id)).toEqual([1, 3, 0, 2]);
});

describe("depth first by weight", () => {
  /** The same by its definition: group by the first token, the largest group first, recursively. */
  function byGroups(queue: readonly Named[], depth = 0): Named[] {
    const groups = new Map<number, Named[]>();
    for (const each of queue)
      if (each.cachedTokens > depth) groups.set(each.tokens[depth], [...(groups.get(each.tokens[depth]) ?? []), each]);
    const largestFirst = [...groups.values()].sort((a, b) => b.length - a.length);
    const here = queue.filter(({ cachedTokens }) => cachedTokens === depth);
    return [...largestFirst.flatMap((group) => byGroups(group, depth + 1)), ...here];
  }

  test("orders the largest group first at every depth", () => {
    const waiting = fc
      .array(fc.nat(2), { maxLength: 6 })
      .chain((tokens) => fc.tuple(fc.constant(tokens), fc.nat(tokens.length)));
    fc.assert(
      fc.property(fc.array(waiting, { maxLength: 12 }), (all) => {
        const queue = all.map(([tokens, cachedTokens], id) => ({ id, tokens, cachedTokens }));
        expect(ids(dfsWeightOrder(queue))).toEqual(ids(byGroups(queue)));
      }),
    );
  });

  test("supports a prompt of a hundred thousand tokens", () => {
    const long = Array.from({ length: 100_000 }, (_, i) => i);
    expect(ids(dfsWeightOrder([{ id: 1, tokens: long, cachedTokens: long.length }]))).toEqual([1]);
  });
});
