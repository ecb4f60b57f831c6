import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Curve } from "../../../../sim/cost/profile/curve.ts";
import { type AttentionRows, Surface } from "../../../../sim/cost/profile/surface.ts";

const counts = fc.uniqueArray(fc.integer({ min: 1, max: 4096 }), { minLength: 1, maxLength: 20 });
const curves = counts.chain((list) =>
  fc.record({
    counts: fc.constant([...list].sort((a, b) => a - b)),
    ns: fc.array(fc.integer({ min: 1, max: 1_000_000 }), { minLength: list.length, maxLength: list.length }),
  }),
);

describe("a curve", () => {
  test("is exact at every measured count", () => {
    fc.assert(
      fc.property(curves, ({ counts, ns }) => {
        const curve = new Curve(counts, ns);
        expect(counts.map((count) => curve.at(count))).toEqual(ns);
      }),
    );
  });

  test("stays between the two nearest measured times, and does not turn between them", () => {
    fc.assert(
      fc.property(curves, fc.nat(), ({ counts, ns }, at) => {
        fc.pre(counts.length > 1);
        const i = at % (counts.length - 1);
        const curve = new Curve(counts, ns);
        const between = Array.from({ length: counts[i + 1] - counts[i] + 1 }, (_, k) => curve.at(counts[i] + k));
        const rises = ns[i + 1] >= ns[i];
        for (let k = 1; k < between.length; k++)
          expect(rises ? between[k] >= between[k - 1] : between[k] <= between[k - 1]).toBe(true);
        expect(Math.min(...between)).toBe(Math.min(ns[i], ns[i + 1]));
        expect(Math.max(...between)).toBe(Math.max(ns[i], ns[i + 1]));
      }),
    );
  });

  test("within a tile of 16 rows, every count takes as long as the full tile", () => {
    const curve = new Curve([128, 144, 192], [100, 130, 178]);
    expect([128, 129, 144].map((count) => curve.at(count))).toEqual([100, 130, 130]);
    expect(curve.at(168)).toBe(154);
  });

  test("beyond the last count the last line goes on, but never falls", () => {
    expect(new Curve([100, 200], [10, 30]).at(400)).toBe(70);
    expect(new Curve([100, 200], [30, 10]).at(400)).toBe(10);
    expect(new Curve([100, 200], [10, 30]).at(1)).toBe(10);
  });
});

/** A ragged grid: each chunk has its own numbers of cached tokens, and so on. */
const grids = fc.integer().map((seed): AttentionRows => {
  let state = seed >>> 0;
  const next = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const values = (least: number) => {
    const list = [least];
    for (let i = next(3); i >= 0; i--) list.push(list.at(-1)! + 1 + next(100));
    return list;
  };
  const rows = { chunk: [], cached: [], decodes: [], context: [], ns: [] } as Record<keyof AttentionRows, number[]>;
  for (const chunk of values(0))
    for (const cached of values(0))
      for (const decodes of values(0))
        for (const context of values(0)) {
          rows.chunk.push(chunk);
          rows.cached.push(cached);
          rows.decodes.push(decodes);
          rows.context.push(context);
          rows.ns.push(1 + next(1000));
        }
  return rows;
});

describe("a surface", () => {
  const timesOf = (surface: Surface, { chunk, cached, decodes, context, ns }: AttentionRows) =>
    Array.from(ns, (_, i) => surface.at(chunk[i], cached[i], decodes[i], context[i]));

  test("is exact at every measured point of a ragged grid", () => {
    fc.assert(
      fc.property(grids, (rows) => {
        expect(timesOf(new Surface(rows), rows)).toEqual(rows.ns);
      }),
    );
  });

  test("does not depend on the order of the rows", () => {
    fc.assert(
      fc.property(grids, (rows) => {
        const reversed = Object.fromEntries(
          Object.entries(rows).map(([name, column]) => [name, Array.from(column as number[]).reverse()]),
        ) as unknown as AttentionRows;
        expect(timesOf(new Surface(reversed), rows)).toEqual(rows.ns);
      }),
    );
  });

  test("the time of a point does not depend on the points before it", () => {
    const at = fc.tuple(fc.nat(300), fc.nat(300), fc.nat(300), fc.nat(300));
    fc.assert(
      fc.property(grids, fc.array(at, { minLength: 2, maxLength: 20 }), (rows, points) => {
        const [surface, fresh] = [new Surface(rows), () => new Surface(rows)];
        for (const [chunk, cached, decodes, context] of points)
          for (const next of [context, context + 1, context + 0.5])
            expect(surface.at(chunk, cached, decodes, next)).toBe(fresh().at(chunk, cached, decodes, next));
      }),
    );
  });

  const affine = (chunk: number, cached: number, decodes: number, context: number) =>
    5 + 0.5 * (chunk * cached + (chunk * (chunk + 1)) / 2) + 2 * decodes + 3 * decodes * context;

  test("attention that is proportional to query-key pairs and to context tokens is reproduced between the points", () => {
    const rows = { chunk: [], cached: [], decodes: [], context: [], ns: [] } as Record<keyof AttentionRows, number[]>;
    for (const chunk of [0, 16, 64, 512])
      for (const cached of [0, 128, 1024])
        for (const decodes of [0, 4, 64])
          for (const context of [0, 256, 4096]) {
            rows.chunk.push(chunk);
            rows.cached.push(cached);
            rows.decodes.push(decodes);
            rows.context.push(context);
            rows.ns.push(affine(chunk, cached, decodes, context));
          }
    const surface = new Surface(rows);
    fc.assert(
      fc.property(
        ...[fc.integer({ min: 0, max: 1024 }), fc.integer({ min: 0, max: 2048 })],
        ...[fc.integer({ min: 0, max: 128 }), fc.integer({ min: 0, max: 8192 })],
        (chunk, cached, decodes, context) => {
          const expected = affine(chunk, cached, decodes, context);
          expect(surface.at(chunk, cached, decodes, context) / expected).toBeCloseTo(1, 9);
        },
      ),
    );
  });
});
