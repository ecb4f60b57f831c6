import { beforeEach, expect, test } from "vitest";
import { Request, Sequence } from "../../core/cache/request.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { TraceBuilder } from "../../core/trace/trace.ts";
import type { BlockData, Executor } from "../../engine/executor.ts";
import { HostTier } from "../../engine/host-tier.ts";
import { indexRegistry } from "../../policies/registry.ts";

/** Content of each block of the device, as one number. */
let device: number[];
let host: HostTier;
beforeEach(() => {
  device = [10, 11, 12, 13, 14, 15, 16, 17];
  host = new HostTier({
    blockTokens: 4,
    readBlocks: async (blocks: readonly number[]) =>
      blocks.map((block) => ({ keys: Float32Array.of(device[block]), values: new Float32Array(1) })),
    writeBlocks: async (blocks: readonly number[], data: readonly BlockData[]) => {
      blocks.forEach((block, i) => {
        device[block] = data[i].keys[0];
      });
    },
  } as unknown as Executor);
});

/** A prompt of 11 tokens, of which the first `computedTokens` are computed. */
function sequenceIn(table: readonly number[], computedTokens: number): Sequence {
  const builder = new TraceBuilder(1);
  builder.add({ arrivalNs: 0, inputTokens: 11, outputTokens: 5, keys: new Array<number>(11).fill(0) });
  const trace = builder.take();
  const columns = blockKeysFor({ index: indexRegistry.get("hash-table"), rules: {}, blockTokens: 4 }, 1).of(trace);
  const sequence = new Sequence(new Request(0, trace, 0, columns));
  sequence.table.set(table);
  sequence.blocks.allocated(table.length);
  sequence.computedTokens = computedTokens;
  sequence.inStep = true;
  return sequence;
}

test("blocks are swapped in to the sequence's current blocks, except for cached ones", async () => {
  host.swappedOut(sequenceIn([2, 0, 3], 9), 9);
  await host.moveOut();
  device.fill(0);
  // The first block is still cached; of 9 tokens 5 are swapped in.
  host.swappedIn(sequenceIn([7, 4, 5], 4), 5);
  await host.moveIn();
  expect(device).toEqual([0, 0, 0, 0, 10, 13, 0, 0]);
});

test("a block whose beginning is cached is swapped in completely", async () => {
  host.swappedOut(sequenceIn([2, 0, 3], 9), 9);
  await host.moveOut();
  host.swappedIn(sequenceIn([7, 4, 5], 6), 3);
  await host.moveIn();
  expect(device).toEqual([10, 11, 12, 13, 10, 13, 16, 17]);
});

test("nothing is swapped in if all blocks are cached", async () => {
  host.swappedOut(sequenceIn([2, 0, 3], 9), 9);
  await host.moveOut();
  host.swappedIn(sequenceIn([7, 4, 5], 9), 0);
  await host.moveIn();
  expect(device).toEqual([10, 11, 12, 13, 14, 15, 16, 17]);
});

test("a request that is admitted and preempted by the same plan writes to no block", async () => {
  host.swappedOut(sequenceIn([2, 0, 3], 9), 9);
  await host.moveOut();
  const sequence = sequenceIn([7, 4, 5], 0);
  host.swappedIn(sequence, 9);
  sequence.inStep = false;
  await host.moveIn();
  expect(device).toEqual([10, 11, 12, 13, 14, 15, 16, 17]);
});

test("a swap-out copies the blocks that the sequence had, also if it is allocated others before the step", async () => {
  const sequence = sequenceIn([2, 0, 3], 9);
  host.swappedOut(sequence, 9);
  sequence.table.set([5, 6, 7]);
  await host.moveOut();
  host.swappedIn(sequenceIn([7, 4, 5], 0), 9);
  await host.moveIn();
  expect(device).toEqual([10, 11, 12, 13, 10, 13, 16, 12]);
});

test.each([
  ["was swapped in", async () => host.swappedIn(sequenceIn([7, 4, 5], 4), 5)],
  ["has ended", async () => host.ended(0)],
])("no block of a request that %s stays in host memory", async (_, end) => {
  host.swappedOut(sequenceIn([2, 0, 3], 9), 9);
  await host.moveOut();
  await end();
  await host.moveIn();
  host.swappedIn(sequenceIn([7, 4, 5], 4), 5);
  await expect(host.moveIn()).rejects.toThrow("none of its blocks is in host memory");
});

test("a swap-in without a swap-out is an invariant error", async () => {
  host.swappedIn(sequenceIn([7, 4, 5], 4), 5);
  await expect(host.moveIn()).rejects.toThrow("request 0 is swapped in, but none of its blocks is in host memory");
});
