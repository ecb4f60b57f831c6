import type { BlockNames } from "./block-names.ts";
import type { Comparison } from "./family.ts";
import { type Fields, isRecord } from "./values.ts";

/** Whether the found value equals the expected one. */
export function agrees(how: Comparison, expected: unknown, found: unknown, blocks: BlockNames): boolean {
  if (how === "blocks") return sameBlocks(expected, found, blocks);
  if (how === "block-set") return areIds(expected) && areIds(found) && blocks.sameSet(expected, found);
  if (how === "block-keys") return sameBlockKeys(expected, found, blocks);
  if (how === "set") return sameSet(expected, found);
  return isSame(expected, found);
}

function sameSet(expected: unknown, found: unknown): boolean {
  if (!Array.isArray(expected) || !Array.isArray(found)) return false;
  const sorted = (values: readonly unknown[]) => values.map((each) => JSON.stringify(each)).sort();
  return isSame(sorted(expected), sorted(found));
}

function isSame(expected: unknown, found: unknown): boolean {
  if (Array.isArray(expected))
    return (
      Array.isArray(found) && found.length === expected.length && expected.every((each, i) => isSame(each, found[i]))
    );
  if (isRecord(expected)) {
    if (!isRecord(found) || Object.keys(found).length !== Object.keys(expected).length) return false;
    return Object.entries(expected).every(([key, each]) => Object.hasOwn(found, key) && isSame(each, found[key]));
  }
  return expected === found;
}

function sameBlocks(expected: unknown, found: unknown, blocks: BlockNames): boolean {
  if (Array.isArray(expected))
    return (
      Array.isArray(found) &&
      found.length === expected.length &&
      expected.every((each, i) => sameBlocks(each, found[i], blocks))
    );
  if (typeof expected === "number") return typeof found === "number" && blocks.same(expected, found);
  return isSame(expected, found);
}

/** Only the blocks that the case names are compared. */
function sameBlockKeys(expected: unknown, found: unknown, blocks: BlockNames): boolean {
  if (!isRecord(expected) || !isRecord(found)) return false;
  return blocks.sameValues(texts(expected), texts(found));
}

const texts = (values: Fields) =>
  new Map(Object.entries(values).map(([block, each]) => [block, JSON.stringify(each)] as const));

function areIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => typeof each === "number");
}
