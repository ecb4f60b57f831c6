import { expect, test } from "vitest";
import { ChunkTable } from "../../../core/serving/chunk-table.ts";
import { linearCost, simulated } from "../../support/simulated.ts";

test("a chunk table has the tokens that each step computes of each request, and the output tokens that result", () => {
  const chunks = new ChunkTable();
  // The second prompt has the first block of the first one.
  const first = [1, 2, 3, 4, 5, 6];
  simulated(
    [
      { prompt: first, output: 3 },
      { at: 15, prompt: [1, 2, 3, 4, 7], output: 1 },
    ],
    { cost: linearCost({ fixed: 10 }), scheduler: "fcfs-chunked", observers: [chunks] },
  );
  const { startNs, loggedEvents, step, request, from, tokens, generated, prefill, blocks } = chunks;
  expect(startNs).toEqual([0, 10, 20]);
  expect(loggedEvents).toEqual([0, 0, 0]);
  expect(step).toEqual([0, 1, 2, 2]);
  expect(request).toEqual([0, 0, 0, 1]);
  expect(from).toEqual([0, 6, 7, 4]);
  expect(tokens).toEqual([6, 1, 1, 1]);
  expect(generated).toEqual([1, 1, 1, 1]);
  expect(prefill).toEqual([1, 0, 0, 1]);
  // The checksum depends on the block table up to the chunk's end: two blocks of 4 tokens, another one for the second request.
  expect(blocks[1]).toBe(blocks[0]);
  expect(blocks[2]).toBe(blocks[0]);
  expect(blocks[3]).not.toBe(blocks[0]);
});
