import { assert } from "../core/errors.ts";
import type { Executor } from "./executor.ts";

/**
 * Divides an executor's block pool among several executors, each with blocks numbered from 0, so that engines share weights in
 * memory. Calls must not overlap, also between parts, and logits are valid until the next step of any part. Closing a part has no
 * effect; the underlying executor must be closed.
 *
 * @param blockCounts blocks of each part; in total at most the executor's
 */
export function poolParts(executor: Executor, blockCounts: readonly number[]): Executor[] {
  const total = blockCounts.reduce((sum, blocks) => sum + blocks, 0);
  assert(total <= executor.blockCount, `parts of ${total} blocks of a pool of ${executor.blockCount}`);
  let end = 0;
  return blockCounts.map((blockCount) => {
    end += blockCount;
    return partFrom(executor, end - blockCount, blockCount);
  });
}

function partFrom(executor: Executor, first: number, blockCount: number): Executor {
  const { backend, blockTokens, poolType, calls } = executor;
  const firstSlot = first * blockTokens;
  return {
    ...{ backend, blockCount, blockTokens, poolType },
    ...(calls && { calls }),
    ...(executor.canSample && { canSample: (sampling) => executor.canSample!(sampling) }),
    executeStep: (step) =>
      executor.executeStep({
        ...step,
        // −1: not stored.
        slotMapping: step.slotMapping.map((slot) => (slot < 0 ? slot : slot + firstSlot)),
        blockTables: step.blockTables.map((block) => block + first),
      }),
    copyBlocks: (pairs) =>
      executor.copyBlocks(pairs.map(({ source, target }) => ({ source: source + first, target: target + first }))),
    readBlocks: (blocks) => executor.readBlocks(blocks.map((block) => block + first)),
    writeBlocks: (blocks, data) =>
      executor.writeBlocks(
        blocks.map((block) => block + first),
        data,
      ),
    close: async () => {},
  };
}
