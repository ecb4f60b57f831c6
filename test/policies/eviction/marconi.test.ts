import { expect, test } from "vitest";
import { WeightTuning } from "../../../policies/eviction/marconi-tuning.ts";

/** A window in which a long prompt returns after as many short ones as evict it in LRU order. */
function window(rounds: number): Uint32Array[] {
  const long = Uint32Array.from({ length: 8 }, (_, place) => place);
  const prompts: Uint32Array[] = [];
  for (let round = 0; round < rounds; round++) {
    prompts.push(long);
    for (let i = 0; i < 6; i++) prompts.push(Uint32Array.of(100 + 6 * round + i));
  }
  return prompts;
}

function bestOf(prompts: readonly Uint32Array[], capacityBlocks: number): number {
  const tuning = new WeightTuning(capacityBlocks, 10 / (8 * 16));
  for (const keys of prompts) tuning.record(keys, 16 * keys.length);
  return tuning.best();
}

test("a weight above 0 is chosen where long prompts return and short ones do not", () => {
  // With room for 10 blocks, LRU evicts the deepest 4 blocks of the long prompt in each round.
  expect(bestOf(window(10), 10)).toBeGreaterThan(0);
});

test("of weights with equally many hits the smallest is chosen", () => {
  expect(bestOf(window(10), 1000)).toBe(0);
  expect(bestOf([], 10)).toBe(0);
});
