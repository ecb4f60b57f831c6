import { expect, test } from "vitest";
import { absent, BlocksByContent } from "../../../policies/index/contents.ts";

const { never, evicted } = absent;

test("contents whose page was released are evicted ones, and can be stored again", () => {
  const blocks = new BlocksByContent();
  const pageLength = 1 << 16;
  for (let page = 1; page <= 8; page++) {
    blocks.expectKeys(page * pageLength);
    for (let key = (page - 1) * pageLength; key < page * pageLength; key++) blocks.set(key, evicted);
    blocks.set(page * pageLength - 1, page);
    if (page > 1) blocks.set((page - 1) * pageLength - 1, evicted);
  }
  expect(new Set(blocks.pages).size).toBeLessThan(8);
  expect([0, pageLength - 1, 5 * pageLength].map((key) => blocks.at(key))).toEqual([evicted, evicted, evicted]);
  expect([...blocks.blocks()]).toEqual([8]);
  blocks.set(3, 70);
  expect([blocks.at(2), blocks.at(3), blocks.at(pageLength + 3)]).toEqual([evicted, 70, evicted]);
  expect([...blocks.blocks()]).toEqual([70, 8]);
});

test("contents that were never stored are distinguished from evicted ones", () => {
  const blocks = new BlocksByContent();
  for (const distinct of [1, 65, 1000, 70_000, 500_000]) blocks.expectKeys(distinct);
  blocks.set(40_000, evicted);
  blocks.set(499_999, 5);
  expect([39_999, 40_000, 65_535, 65_536, 499_999].map((key) => blocks.at(key))).toEqual([
    never,
    evicted,
    never,
    never,
    5,
  ]);
});
