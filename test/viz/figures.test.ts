import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RunRow } from "../../viz/api.ts";
import { abscissasOf, type Quantity, resultsOf } from "../../viz/app/data/axes.ts";
import { frontLines, linesOf, paretoFront, seriesOf } from "../../viz/app/data/explore-lines.ts";
import { chosenFigure, panelsOf, type Requested } from "../../viz/app/data/figures.ts";
import { bestRows, heatMapOf } from "../../viz/app/data/heat-map.ts";
import { missSharesOf } from "../../viz/app/data/miss-shares.ts";
import { parametersOf } from "../../viz/app/data/parameters.ts";

let runs = 0;

function rowOf({ settings = {}, ...fields }: Partial<RunRow>): RunRow {
  return {
    ...{
      id: `run-${runs++}`,
      savedAtMs: 1,
      target: "cache",
      trace: "t",
      requests: 100,
      preset: null,
      index: "hash-table",
    },
    ...{ eviction: "lru", allocator: "block", scheduler: "naive", blocks: 100, blockTokens: 16, capacityTokens: 1600 },
    ...{ hitRatio: { token: 0.5 }, hitTokens: 50, lookupTokens: 100 },
    settings: { seed: 1, ...settings },
    ...fields,
  };
}

const sized = (eviction: string, blocks: number, token: number, seed = 1) =>
  rowOf({ eviction, blocks, capacityTokens: blocks * 16, hitRatio: { token }, settings: { seed } });
const timed = (preset: string, rate: number, ttftMsP99: number, others: Partial<RunRow> = {}) =>
  rowOf({
    ...{
      preset,
      target: "sim",
      requestsPerS: rate,
      outputTokensPerS: 100 * rate,
      ttftMsP99,
      settings: { requestsPerS: rate },
    },
    ...others,
  });

const none: Requested = { figure: null, x: null, y: null, series: null, facets: null };
const named = (all: readonly Quantity[], name: string) => all.find((each) => each.name === name)!;
const axes = (rows: readonly RunRow[], x: string, y: string) =>
  [named(abscissasOf(rows), x), named(resultsOf(rows), y)] as const;

describe("the choice of a figure", () => {
  test("ready-made figures are offered where the runs have their values", () => {
    const sizes = [sized("lru", 100, 0.4), sized("lru", 200, 0.5), sized("fifo", 100, 0.3)];
    const names = (rows: readonly RunRow[]) => chosenFigure(rows, none)?.figures.map(({ name }) => name);
    expect(names(sizes)).toEqual(["", "heat", "front"]);
    const misses = sizes.map((row) => ({ ...row, missTokens: { evicted: 10 } }));
    expect(names(misses)).toEqual(["", "heat", "front", "misses"]);
    expect(names([timed("vllm", 2, 10), timed("vllm", 4, 20)])).toEqual(["", "rates", "heat"]);
    expect(chosenFigure([sized("lru", 100, 0.4)], none)).toBeUndefined();
  });

  test("the figure of offered rates has a panel for each result that the runs have, until a result is chosen", () => {
    const rows = [timed("vllm", 2, 10), timed("vllm", 4, 20)];
    const chosen = chosenFigure(rows, { ...none, figure: "rates" })!;
    expect(chosen.ys.map(({ name }) => name)).toEqual(["output", "ttft99"]);
    expect(panelsOf(rows, chosen).map(({ y }) => y?.name)).toEqual(["output", "ttft99"]);
    expect(chosenFigure(rows, { ...none, figure: "rates", y: "throughput" })!.ys.map(({ name }) => name)).toEqual([
      "throughput",
    ]);
  });

  test("a setting, axis or figure that the runs do not have is replaced by the default", () => {
    const rows = [sized("lru", 100, 0.4), sized("fifo", 200, 0.5)];
    const unknown = { figure: "no", x: "no", y: "no", series: "no", facets: "no" };
    const { name, x, ys, series, facets } = chosenFigure(rows, unknown)!;
    expect({ name, x: x?.name, y: ys[0].name, series, facets }).toEqual({
      ...{ name: "", x: "capacity", y: "hits-token", series: undefined, facets: undefined },
    });
  });

  test("facets are a panel for each value, in natural order", () => {
    const rows = [timed("vllm", 10, 10), timed("vllm", 2, 10), timed("tgi", 2, 30)];
    const chosen = chosenFigure(rows, { ...none, facets: "requestsPerS" })!;
    const panels = panelsOf(rows, chosen).map(({ title, rows: own }) => [title, own.length]);
    expect(panels).toEqual([
      ["2 req/s", 2],
      ["10 req/s", 1],
    ]);
  });

  test("only settings in which the runs differ can be series or facets", () => {
    const rows = [sized("lru", 100, 0.4, 1), sized("lru", 200, 0.5, 2)];
    expect(parametersOf(rows).map(({ name }) => name)).toEqual(["capacity", "seed"]);
  });
});

test("runs whose sizes differ by less than 5 % have no axis of memory, and no Pareto front over it", () => {
  const near = [2047, 2048].map((blocks) => ({
    ...timed("vllm", 2, 10, { capacityTokens: 16 * blocks, kvBytesPerToken: 131_072 }),
    settings: {},
  }));
  expect(resultsOf(near).map(({ name }) => name)).not.toContain("memory");
  expect(chosenFigure(near, none)).toBeUndefined();
  const far = near.map((row, i) => ({ ...row, capacityTokens: row.capacityTokens! * (i + 1) }));
  expect(resultsOf(far).map(({ name }) => name)).toContain("memory");
});

describe("lines", () => {
  test("runs of several seeds are one point, their mean, with their range; a size that was not run breaks the line", () => {
    const rows = [
      ...[sized("lru", 100, 0.4), sized("lru", 400, 0.6)],
      ...[sized("random", 100, 0.2, 1), sized("random", 100, 0.3, 2), sized("random", 200, 0.4)],
    ];
    const [x, y] = axes(rows, "capacity", "hits-token");
    const [lru, random] = linesOf(rows, x, y, seriesOf(rows, undefined, ["capacity"]));
    expect([lru.label, random.label]).toEqual(["lru", "random"]);
    expect([...lru.breaks!]).toEqual([1]);
    expect(random.points[0]).toMatchObject({ x: 1600, y: 0.25, low: 0.2, high: 0.3 });
    expect(random.points[0].text).toBe("25.00%\ncache size, tokens: 1.6k\n20.00% to 30.00%, 2 runs");
  });

  test("a gain over LRU has its 95 % interval as limits", () => {
    const uncertain = (eviction: string, blocks: number, value: number): RunRow => {
      const gainOverLru = { value, low: value - 0.01, high: value + 0.02 };
      return {
        ...sized(eviction, blocks, 0.5),
        uncertainty: { metric: "token", gainOverLru, behindBest: gainOverLru },
      };
    };
    const rows = [uncertain("lfu", 100, 0.05), uncertain("lfu", 200, -0.02)];
    const [x, y] = axes(rows, "capacity", "gain");
    const [line] = linesOf(rows, x, y, seriesOf(rows, undefined, ["capacity"]));
    expect(line.points.map(({ low, high }) => [low, high].map((limit) => limit!.toFixed(3)))).toEqual([
      ["0.040", "0.070"],
      ["-0.030", "0.000"],
    ]);
    expect(line.points[0].text).toContain("+4.00 points to +7.00 points, 95 % interval");
  });

  test("a run without a result is left out, not drawn as 0", () => {
    const rows = [timed("vllm", 2, 10, { goodputRequestsPerS: 1.5 }), timed("vllm", 4, 20)];
    const [x, y] = axes(rows, "requestsPerS", "goodput");
    expect(linesOf(rows, x, y, seriesOf(rows, undefined, [x.name])).flatMap(({ points }) => points)).toHaveLength(1);
  });
});

describe("the Pareto front", () => {
  const runsOf = fc.array(fc.tuple(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 20 })), { minLength: 1 });

  test.each(["ttft99", "goodput"])("of %s has every run that no other one dominates, and no other", (name) => {
    fc.assert(
      fc.property(runsOf, (values) => {
        const rows = values.map(([replicas, value]) =>
          timed("vllm", 2, value, { goodputRequestsPerS: value, settings: { gpu: "h200", replicas } }),
        );
        const [x, y] = [
          named(resultsOf([...rows, timed("vllm", 2, 1, { settings: { gpu: "h200", replicas: 99 } })]), "gpus"),
          named(resultsOf(rows), name),
        ];
        const front = new Set(paretoFront(rows, x, y));
        const isBetter = (a: number, b: number) => (y.isLessBetter ? a < b : a > b);
        const [ofX, ofY] = [(row: RunRow) => x.of(row)!, (row: RunRow) => y.of(row)!];
        const dominates = (a: RunRow, b: RunRow) =>
          (ofX(a) < ofX(b) && !isBetter(ofY(b), ofY(a))) || (ofX(a) === ofX(b) && isBetter(ofY(a), ofY(b)));
        for (const row of rows) {
          const isDominated = rows.some((other) => dominates(other, row));
          const isEqual = [...front].some((other) => ofX(other) === ofX(row) && ofY(other) === ofY(row));
          expect(isEqual).toBe(!isDominated);
        }
      }),
    );
  });

  test("is drawn as steps; the points of a series are not joined", () => {
    const replicas = (count: number) => ({ settings: { gpu: "h200", replicas: count } });
    const rows = [
      timed("vllm", 2, 90, replicas(1)),
      timed("vllm", 2, 40, replicas(2)),
      timed("vllm", 2, 60, replicas(4)),
    ];
    const x = named(resultsOf(rows), "gpus");
    const lines = frontLines(rows, x, named(resultsOf(rows), "ttft99"), seriesOf(rows, undefined, []));
    const front = lines.find(({ isStepped }) => isStepped)!;
    expect(front.points.map((point) => [point.x, point.y])).toEqual([
      [1, 90],
      [2, 40],
    ]);
    for (const { breaks, points } of lines.filter((line) => line !== front)) expect(breaks!.size).toBe(points.length);
  });
});

describe("a heat map", () => {
  const rows = [
    ...[sized("lru", 100, 0.4), sized("lru", 200, 0.6), sized("fifo", 100, 0.3)],
    ...[sized("random", 102, 0.1, 1), sized("random", 102, 0.2, 2)],
  ];
  const [x, y] = axes(rows, "capacity", "hits-token");

  test("has a cell for each policy and size, the mean of its runs, and no value where nothing was run", () => {
    const map = heatMapOf(rows, x, y, ({ eviction }) => eviction);
    expect(map.rows).toEqual(["lru", "fifo", "random"]);
    expect(map.columns).toEqual([1600, 3200]);
    expect(map.cells.map((row) => row.map((cell) => cell?.value.toFixed(2)))).toEqual([
      ["0.40", "0.60"],
      ["0.30", undefined],
      ["0.15", undefined],
    ]);
  });

  test("marks the best of a column, if more than one was run", () => {
    const map = heatMapOf(rows, x, y, ({ eviction }) => eviction);
    expect(bestRows(map, y)).toEqual([[0], []]);
  });
});

test("shares of prompt tokens by miss reason add up to 1, with the tokens of refused requests", () => {
  const counts = fc.record({ hit: fc.nat(1000), evicted: fc.nat(1000), cold: fc.nat(1000), refused: fc.nat(1000) });
  fc.assert(
    fc.property(fc.array(counts, { minLength: 1, maxLength: 5 }), (all) => {
      const rows = all.map(({ hit, evicted, cold, refused }) =>
        rowOf({
          ...{ hitTokens: hit, lookupTokens: hit + evicted + cold + refused },
          missTokens: { evicted, "never-seen": cold },
        }),
      );
      for (const { shares } of missSharesOf(rows, ({ id }) => id)) {
        expect(shares.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 9);
        for (const { share } of shares) expect(share).toBeGreaterThan(0);
      }
      const counted = rows.filter(({ lookupTokens }) => lookupTokens > 0).length;
      expect(missSharesOf(rows, ({ id }) => id)).toHaveLength(counted);
    }),
  );
});
