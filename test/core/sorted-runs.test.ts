import fc from "fast-check";
import { expect, test } from "vitest";
import { SortedRuns } from "../../core/sorted-runs.ts";

/** Removes and returns all entries, first to last. */
function drained(runs: SortedRuns): number[] {
  const order: number[] = [];
  for (let first = runs.first; first !== undefined; first = runs.first) {
    order.push(first);
    runs.remove(first);
  }
  return order;
}

test("the first entry is the one with the smallest score, of equals the first of their order, after each addition and removal", () => {
  const entries = 40;
  const steps = fc.array(fc.record({ entry: fc.nat(entries - 1), score: fc.nat(6) }), { maxLength: 150 });
  fc.assert(
    fc.property(steps, fc.constantFrom(0, 2), fc.boolean(), (all, tieShift, descending) => {
      const score = new Float64Array(entries);
      const tie = Float64Array.from({ length: entries }, (_, entry) => entry >> tieShift);
      const order = tieShift === 0 ? undefined : (a: number, b: number) => (descending ? a > b : a < b);
      const runs = new SortedRuns(score, tie, order);
      const naive: number[] = [];
      const inOrder = () =>
        naive.sort((a, b) => score[a] - score[b] || tie[a] - tie[b] || (descending ? b - a : a - b));
      for (const { entry, score: next } of all) {
        expect(runs.has(entry)).toBe(naive.includes(entry));
        if (runs.has(entry)) {
          runs.remove(entry);
          naive.splice(naive.indexOf(entry), 1);
        } else {
          score[entry] = next;
          runs.add(entry);
          naive.push(entry);
        }
        expect([runs.first, runs.count]).toEqual([inOrder()[0], naive.length]);
      }
      expect(drained(runs)).toEqual(inOrder());
    }),
    { numRuns: 300 },
  );
});

const count = 3000;
const orders: Record<string, (entry: number) => number> = {
  "scores that ascend": (entry) => entry,
  "scores that descend": (entry) => -entry,
  "equal scores": () => 0,
  "scores that alternate between two ends, each a run of its own": (entry) => (entry % 2 === 0 ? entry : -entry),
  "scores below all others and above all others of which the latest is nearest": (entry) =>
    entry % 2 === 0 ? entry - count : count - entry,
  "scores that jump": (entry) => (entry * 7919) % count,
  "infinite scores": (entry) => (entry % 3 === 0 ? 1 : entry % 3 === 1 ? 1 / 0 : -1 / 0),
};

test.each(Object.entries(orders))("entries leave in order, after O(log n) comparisons each: %s", (_, scoreOf) => {
  const score = Float64Array.from({ length: count }, (_, entry) => scoreOf(entry));
  const precedes = (a: number, b: number) => score[a] < score[b] || (score[a] === score[b] && a < b);
  const inOrder = Array.from(score.keys()).sort((a, b) => (precedes(a, b) ? -1 : 1));
  let comparisons = 0;
  const equal = new Float64Array(count);
  const number = Float64Array.from(score.keys());
  const rank = new Float64Array(count);
  inOrder.forEach((entry, place) => {
    rank[entry] = place;
  });
  // All comparisons are those of equal scores.
  const counted = new SortedRuns(equal, equal, (a, b) => {
    comparisons++;
    return precedes(a, b);
  });
  const byScore = new SortedRuns(score, equal, (a, b) => a < b);
  for (const runs of [new SortedRuns(score, number), new SortedRuns(equal, rank), byScore, counted]) {
    for (let entry = 0; entry < count; entry++) runs.add(entry);
    expect(drained(runs)).toEqual(inOrder);
    // Every second entry leaves before the others and is added again.
    for (let entry = 0; entry < count; entry++) runs.add(entry);
    for (let entry = 0; entry < count; entry += 2) runs.remove(entry);
    for (let entry = count - 2; entry >= 0; entry -= 2) runs.add(entry);
    expect(drained(runs)).toEqual(inOrder);
  }
  expect(comparisons / (5 * count)).toBeLessThan(2 * 4 * Math.log2(count));
});
