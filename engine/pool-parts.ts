import { assert } from "../core/errors.ts";
import type { Executor } from "./executor.ts";

/**
 * One executor as several, each with blocks of its own, numbered from 0: engines that have the same weights in the same memory.
 * They take turns: one call at a time among all of them, and logits are valid until the next step of any. It is the executor
 * that is to be closed; to close a part does nothing.
 *
 * @param blockCounts of each; together no more than the executor has
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
        // −1 is nowhere.
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
