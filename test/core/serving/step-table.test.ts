import { expect, test } from "vitest";
import { noLoad } from "../../../core/serving/step-load.ts";
import { StepTable } from "../../../core/serving/step-table.ts";

test("a step table has one row per step; of repeated steps each decode reads one more token than in the one before", () => {
  const table = new StepTable();
  const first = { ...noLoad(), sequences: 1, prefillTokens: 7, prefillContextTokens: 7, prefillSequences: 1 };
  Object.assign(first, { prefillPairs: 28, logits: 2, calls: 3, paddedContextTokens: 8, farContextTokens: 4 });
  Object.assign(first, { paddedPairs: 64, copiedBlocks: 5, swappedTokens: 6 });
  table.steps({ number: 1 }, first, 10, 1, Float64Array.of(25));
  // The load is that of the last of three steps.
  const decodes = { ...noLoad(), sequences: 2, decodeTokens: 2, decodeContextTokens: 40, logits: 2 };
  table.steps({ number: 0 }, decodes, 25, 3, Float64Array.of(30, 36, 43, 99));
  expect({ ...table }).toEqual({
    replica: [1, 0, 0, 0],
    startNs: [10, 25, 30, 36],
    durationNs: [15, 5, 6, 7],
    sequences: [1, 2, 2, 2],
    prefillTokens: [7, 0, 0, 0],
    decodeTokens: [0, 2, 2, 2],
    contextTokens: [7, 36, 38, 40],
    prefillContextTokens: [7, 0, 0, 0],
    prefillSequences: [1, 0, 0, 0],
    prefillPairs: [28, 0, 0, 0],
    logits: [2, 2, 2, 2],
    calls: [3, 0, 0, 0],
    paddedContextTokens: [8, 0, 0, 0],
    farContextTokens: [4, 0, 0, 0],
    paddedPairs: [64, 0, 0, 0],
    copiedBlocks: [5, 0, 0, 0],
    swappedTokens: [6, 0, 0, 0],
  });
  table.clear();
  expect({ ...table }).toEqual({ ...new StepTable() });
  expect(table.replica).toEqual([]);
});
