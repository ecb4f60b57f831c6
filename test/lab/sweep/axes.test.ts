import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Axis, gridOf, latinHypercube, valuesOf } from "../../../lab/sweep/axes.ts";

describe("values of a range", () => {
  test.each<[string, Axis, unknown]>([
    ["whole steps", { from: 100, to: 400, step: 100 }, [100, 200, 300, 400]],
    ["steps that do not reach the end", { from: 1, to: 6, step: 2 }, [1, 3, 5]],
    ["decimal steps, without rounding errors", { from: 0, to: 0.5, step: 0.1 }, [0, 0.1, 0.2, 0.3, 0.4, 0.5]],
    ["a count", { from: 0, to: 1, count: 5 }, [0, 0.25, 0.5, 0.75, 1]],
    ["equal ratios", { from: 1, to: 1000, count: 4, scale: "log" }, [1, 10, 100, 1000]],
    ["equal ratios, rounded to a step", { from: 1, to: 16, count: 4, scale: "log", step: 1 }, [1, 3, 6, 16]],
    ["a unit", { from: "1%", to: "50%", count: 3 }, ["1%", "25.5%", "50%"]],
    ["one value", { from: 7, to: 7, count: 1 }, [7]],
    ["rounded values that are equal are one", { from: 1, to: 2, count: 9, step: 1 }, [1, 2]],
  ])("%s", (_, axis, values) => {
    expect(valuesOf(axis)).toEqual(values);
  });

  test.each<[string, Axis, string]>([
    ["different units", { from: "1%", to: "2GiB", count: 2 }, "the same unit"],
    ["an end before the beginning", { from: 2, to: 1, step: 1 }, "expected at least from"],
    ["a logarithm of 0", { from: 0, to: 1, count: 3, scale: "log" }, "more than 0"],
    ["no number", { from: "ten", to: 20, count: 2 }, 'from is "ten"'],
    ["neither step nor count", { from: 1, to: 2 }, "neither step nor count"],
    ["too many values", { from: 0, to: 1, step: 1e-9 }, "a larger step"],
  ])("%s is refused", (_, axis, message) => {
    expect(() => valuesOf(axis)).toThrow(message);
  });
});

test("a grid has every combination once, the last axis first", () => {
  expect(gridOf({ a: [1, 2], b: ["x", "y"] })).toEqual([
    { a: 1, b: "x" },
    { a: 1, b: "y" },
    { a: 2, b: "x" },
    { a: 2, b: "y" },
  ]);
  expect(gridOf({})).toEqual([{}]);
  expect(() => gridOf({ a: { from: 1, to: 2000, step: 1 }, b: { from: 1, to: 2000, step: 1 } })).toThrow(
    "combinations",
  );
});

describe("a Latin hypercube", () => {
  test("has one row in each of its equal parts of every range", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.nat(),
        fc.double({ min: 0.001, max: 1e6, noNaN: true }),
        fc.double({ min: 1.001, max: 1e6, noNaN: true }),
        fc.constantFrom("linear" as const, "log" as const),
        (count, seed, from, ratio, scale) => {
          const to = from * ratio;
          const rows = latinHypercube({ x: { from, to, scale }, y: ["a", "b"] }, count, seed);
          expect(rows).toHaveLength(count);
          const share = (value: number) =>
            scale === "log" ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
          const shares = rows.map(({ x }) => share(Number(x)) * count).sort((a, b) => a - b);
          for (const [i, part] of shares.entries()) {
            expect(part).toBeGreaterThan(i - 1e-3);
            expect(part).toBeLessThan(i + 1 + 1e-3);
          }
        },
      ),
    );
  });

  test("has each value of a list equally often, within one", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 7 }), fc.nat(), (count, length, seed) => {
        const list = Array.from({ length }, (_, i) => i);
        const rows = latinHypercube({ x: list }, count, seed);
        for (const value of list) {
          const times = rows.filter(({ x }) => x === value).length;
          expect(Math.abs(times - count / length)).toBeLessThan(2);
        }
      }),
    );
  });

  test("is the same for the same seed, and has values of the step only", () => {
    const axes = { blocks: { from: 10, to: 1000, step: 10, scale: "log" }, rate: { from: 1, to: 8 } } as const;
    const rows = latinHypercube(axes, 20, 7);
    expect(latinHypercube(axes, 20, 7)).toEqual(rows);
    expect(latinHypercube(axes, 20, 8)).not.toEqual(rows);
    for (const { blocks } of rows) expect(Number(blocks) % 10).toBe(0);
  });
});
