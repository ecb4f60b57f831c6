import { expect, test } from "vitest";
import { breaksBetween, haveOneSize } from "../../viz/app/data/line-breaks.ts";

const at = (...sizes: number[]) => sizes.map((x) => ({ x }));

test("a line is broken where a size that others have lies between two of its own", () => {
  expect([...breaksBetween(at(1000, 10_000, 50_000), [1000, 10_000, 50_000])]).toEqual([]);
  expect([...breaksBetween(at(1000, 10_000, 50_000), [1000, 5000, 10_000, 50_000])]).toEqual([1]);
  expect([...breaksBetween(at(1000, 50_000), [5000, 10_000, 20_000])]).toEqual([1]);
});

test("sizes that differ by the rounding of a block size are one size", () => {
  expect([...breaksBetween(at(10_000, 20_000), [10_240, 19_968])]).toEqual([]);
});

test("sizes outside a line do not break it", () => {
  expect([...breaksBetween(at(1000, 2000), [10, 900, 3000])]).toEqual([]);
});

test("sizes within 5 % of each other are one, an unlimited cache is another", () => {
  const of = (...sizes: (number | null)[]) => haveOneSize(sizes.map((capacityTokens) => ({ capacityTokens })));
  expect([of(32_752, 32_768), of(null, null), of(1000, 2000), of(1000, null)]).toEqual([true, true, false, false]);
});
