import { expect, test } from "vitest";
import type { RunRow } from "../../viz/api.ts";
import { answersByRate, answersBySize, workloadsOf } from "../../viz/app/data/answer.ts";

const run = (eviction: string, blocks: number | null, ratio: number, more: Partial<RunRow> = {}): RunRow => ({
  ...{ id: `${eviction}-${blocks}`, savedAtMs: 1, target: "cache", trace: "t", requests: 100, preset: null },
  ...{ index: "hash-table", eviction, allocator: "block", scheduler: "fcfs", blocks, blockTokens: 16 },
  capacityTokens: blocks === null ? null : blocks * 16,
  hitRatio: { token: ratio },
  ...{ hitTokens: ratio * 10_000, lookupTokens: 10_000, settings: { seed: 1 } },
  ...more,
});

const uncertain = (gain: [number, number], behind: [number, number]): Partial<RunRow> => ({
  uncertainty: {
    metric: "token",
    gainOverLru: { value: (gain[0] + gain[1]) / 2, low: gain[0], high: gain[1] },
    behindBest: { value: (behind[0] + behind[1]) / 2, low: behind[0], high: behind[1] },
  },
});

test("the best policy of each size is that with the highest ratio, its gain that over LRU with the same options", () => {
  const rows = [
    run("lru", 1000, 0.2),
    run("lru", 1000, 0.25, { id: "other", settings: { seed: 2 } }),
    run("lfu", 1000, 0.3, { gapClosed: { token: 0.5 }, ...uncertain([0.05, 0.15], [0, 0]) }),
    run("mru", 1000, 0.29, uncertain([0.04, 0.14], [-0.01, 0.03])),
    run("fifo", 1000, 0.1, uncertain([-0.2, -0.1], [0.1, 0.3])),
    run("belady", 1000, 0.9),
    run("unbounded", null, 0.95),
  ];
  const [answer] = answersBySize(rows, "token");
  expect(answer).toMatchObject({ capacityTokens: 16_000, gapClosed: 0.5, isGainNoise: false });
  expect([answer.best.eviction, answer.reference?.id]).toEqual(["lfu", "lru-1000"]);
  expect(answer.gain).toBeCloseTo(0.1, 12);
  expect(answer.savedTokens).toBeCloseTo(1000, 9);
  expect(answer.asGood.map(({ eviction }) => eviction)).toEqual(["mru"]);
  expect(answersBySize(rows, "block")).toEqual([]);
});

test("the reference is the pinned baseline at every size, and twice the size and the optimum are stated where they were run", () => {
  const rows = [
    ...[run("lru", 1000, 0.2), run("fifo", 1000, 0.1, { notes: { baseline: true } }), run("lfu", 1000, 0.3)],
    ...[run("lru", 2001, 0.45), run("fifo", 2001, 0.15), run("lru", 3000, 0.5), run("belady", 1000, 0.6)],
  ];
  const [first, second, third] = answersBySize(rows, "token");
  expect([first, second, third].map(({ reference }) => reference?.id)).toEqual(["fifo-1000", "fifo-2001", undefined]);
  expect([first.gain, second.gain]).toEqual([0.3 - 0.1, 0.45 - 0.15]);
  expect(first.optimum?.id).toBe("belady-1000");
  expect(first.doubled?.best.id).toBe("lru-2001");
  expect(first.doubled?.gain).toBeCloseTo(0.15, 12);
  expect([second.doubled, second.optimum]).toEqual([undefined, undefined]);
});

test("systems with other block sizes have one size: the next one is at least 5 % larger", () => {
  const rows = [run("lru", 8192, 0.5), run("fifo", 8200, 0.2), run("lru", 24_576, 0.6)];
  const [first, second] = answersBySize(rows, "token");
  expect(first.perGiB).toBeCloseTo(0.1 / 32, 12);
  expect(second.perGiB).toBeGreaterThan(0);
});

test("another GiB gives the rise to the next size that was run, divided by their distance", () => {
  const rows = [run("lru", 8192, 0.2), run("lru", 24_576, 0.4), run("fifo", 24_576, 0.5)];
  const [first, second] = answersBySize(rows, "token");
  // 16,384 blocks of 16 tokens of 128 KiB are 32 GiB.
  expect(first.perGiB).toBeCloseTo(0.3 / 32, 12);
  expect(second.perGiB).toBeUndefined();
  const small = rows.map((row) => ({ ...row, kvBytesPerToken: 65_536 }));
  expect(answersBySize(small, "token")[0].perGiB).toBeCloseTo(0.3 / 16, 12);
});

test("a gain is noise if its interval contains 0; interrupted runs are not an answer", () => {
  const rows = [run("lru", 10, 0.2), run("lfu", 10, 0.21, uncertain([-0.01, 0.03], [0, 0]))];
  expect(answersBySize(rows, "token")[0].isGainNoise).toBe(true);
  const better = run("sieve", 10, 0.9, { interrupted: true });
  expect(answersBySize([...rows, better], "token")[0].best.eviction).toBe("lfu");
  expect(workloadsOf([better])).toEqual([]);
});

test("at a rate the best system has the highest goodput, and those that meet the SLO serve 99 % of the requests in time", () => {
  const timed = (preset: string, rate: number, goodput: number, attained: number, more: Partial<RunRow> = {}) =>
    run("lru", 10, 0.2, {
      ...{ id: `${preset}-${rate}`, preset, target: "sim", requestsPerS: rate, ttftMsP99: 100 },
      ...{ goodputRequestsPerS: goodput, sloAttained: attained, settings: { requestsPerS: rate } },
      ...more,
    });
  const rows = [
    timed("a", 8, 6, 0.7),
    timed("b", 8, 7, 0.8),
    timed("a", 2, 2, 1),
    timed("b", 2, 1.99, 0.995),
    timed("c", 2, 1.9, 1, { refused: 1 }),
  ];
  const answers = answersByRate(rows);
  expect(answers.map(({ rate, best }) => [rate, best.preset])).toEqual([
    [2, "a"],
    [8, "b"],
  ]);
  expect(answers.map(({ meeting }) => meeting?.map(({ preset }) => preset))).toEqual([["a", "b"], []]);
  const without = rows.map(({ goodputRequestsPerS: _, sloAttained: __, ...row }) => row as RunRow);
  expect(answersByRate([without[0], { ...without[1], ttftMsP99: 50 }])[0]).toMatchObject({
    meeting: undefined,
    best: { preset: "b" },
  });
});
